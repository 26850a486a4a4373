// SkipPipe: micro-batches that leave out a share of the stages (Blagoev et al., arXiv 2502.19913).
#pragma once

#include "planner/api/schemes/scheme.hpp"
#include "planner/search/path_routing/path_router.hpp"

namespace dtfm::api {

/// Devices of each of so many stages, one at least: `devices` in all, in proportion to how many micro-batches
/// visit the stage, rounded by largest remainder.
std::vector<int> stage_widths(int devices, int stages, int skipped);

/// Ways for the micro-batches of a layout that has `skipped`. Throws Error as `route` does, and where the
/// outputs of stages differ in size, so that none can be left out.
search::Routing routing_of(const Problem& problem, const Layout& layout);

}  // namespace dtfm::api
