#pragma once

#include "core/base/rng.hpp"
#include "planner/cost/comm_cost/comm_cost.hpp"

namespace dtfm::search {

/// Cuts the devices in `order` into consecutive groups.
Placement placement_of(const cost::CommCostModel& model, std::span<const int> order);
/// Returns a uniformly random balanced partition; stages are neither ordered nor matched.
Placement random_placement(const cost::CommCostModel& model, Rng& rng);

}  // namespace dtfm::search
