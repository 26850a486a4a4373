// Lower bounds on the cost of any placement.
#pragma once

#include <functional>

#include "core/base/stop.hpp"
#include "planner/search/comm_cost/strategy.hpp"

namespace dtfm::search {

/// Returns a valid bound, at least as good as the one from every device's fastest links. Takes up to about
/// half a second plus, for thousands of devices, some passes over all pairs of them (seconds at 8,192); once
/// `stop` returns true, only the first of these passes is made. `upper_bound` is the cost of a known
/// placement: the bound never exceeds it, and equals it only if no placement is cheaper.
LowerBound quick_lower_bound(const cost::CommCostModel& model, double upper_bound, const StopFunction& stop);

/// Refines the classes of devices until the bound meets `upper_bound`, the search would hold more than
/// `max_search_bytes`, or `stop` returns true. Calls `found` with every better bound.
void prove_lower_bound(const cost::CommCostModel& model, double upper_bound, const StopFunction& stop,
                       const std::function<void(LowerBound)>& found);

}  // namespace dtfm::search
