// How good a placement can be at best.
#pragma once

#include <functional>

#include "planner/search/strategy.hpp"

namespace dtfm {

/// A valid bound in well under a second. `upper_bound` is the cost of a known placement: the bound never
/// exceeds it, and equals it only if nothing is cheaper.
LowerBound quick_lower_bound(const CommCostModel& model, double upper_bound,
                             const std::function<bool()>& stop);

/// Works, with finer and finer classes of devices, until the bound meets `upper_bound`, memory is short or
/// `stop` says so; calls `found` with every better bound.
void prove_lower_bound(const CommCostModel& model, double upper_bound, const std::function<bool()>& stop,
                       const std::function<void(LowerBound)>& found);

}  // namespace dtfm
