// How good a placement can be at best.
#pragma once

#include <functional>

#include "planner/search/comm_cost/strategy.hpp"

namespace dtfm::search {

/// A valid bound, for which work of at most some half a second is done, and on thousands of devices some
/// passes over all pairs of them, seconds at 8,192; when `stop` says so, only the first of these passes. No
/// less than the bound by every device's fastest links. `upper_bound` is the cost of a known placement: the
/// bound never exceeds it, and equals it only if nothing is cheaper.
LowerBound quick_lower_bound(const cost::CommCostModel& model, double upper_bound,
                             const std::function<bool()>& stop);

/// Works, with finer and finer classes of devices, until the bound meets `upper_bound`, the search would hold
/// more than `max_search_bytes` or `stop` says so; calls `found` with every better bound.
void prove_lower_bound(const cost::CommCostModel& model, double upper_bound, const std::function<bool()>& stop,
                       const std::function<void(LowerBound)>& found);

}  // namespace dtfm::search
