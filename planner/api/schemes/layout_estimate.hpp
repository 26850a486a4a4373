// Estimates of layouts, which tell which of them are worth simulating.
#pragma once

#include <optional>
#include <vector>

#include "core/base/stop.hpp"
#include "planner/api/schemes/scheme.hpp"

namespace dtfm::api {

/// What planner/cost estimates for an average iteration of a layout.
struct LayoutEstimate {
  double seconds = 0, deficit_bytes = 0;
};

/// Estimates layouts of one topology, in their order. Empty if the planner does not know how to estimate one:
/// it skips stages, has a sharding that no plan can have, or has devices with unknown times; and after
/// `stop`.
std::vector<std::optional<LayoutEstimate>> estimate_layouts(const Problem& problem,
                                                            const std::vector<Layout>& layouts, int threads,
                                                            const StopFunction& stop);

}  // namespace dtfm::api
