// SkipPipe: micro-batches that skip a share of the stages (Blagoev et al., arXiv 2502.19913).
#pragma once

#include "planner/api/schemes/scheme.hpp"
#include "planner/search/path_routing/path_router.hpp"

namespace dtfm::api {

/// Number of devices of each stage, at least one: `devices` in total, in proportion to the micro-batches that
/// visit the stage, rounded by largest remainder.
std::vector<int> stage_widths(int devices, int stages, int skipped);

/// Finds paths for the micro-batches of a layout with `skipped`. Throws Error as `route` does, and if the
/// outputs of stages differ in size, so that none can be skipped.
search::Routing routing_of(const Problem& problem, const Layout& layout);

}  // namespace dtfm::api
