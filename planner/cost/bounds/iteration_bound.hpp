// Lower bounds on the iteration time that no plan beats, whether estimated or simulated.
#pragma once

#include <string>
#include <string_view>

#include "planner/cost/bounds/bound_inputs.hpp"

namespace dtfm::cost {

struct IterationBound {
  double value = 0;    // s
  std::string method;  // what the bound consists of, as text
  bool fits = true;    // false: out of memory even on the devices with the most memory; `value` is 0 then
  std::string_view winner;  // which bound is the largest; the first of equal ones
};

/// The largest bound for all plans within the limits, whose pipelines may differ in depth. Once the inputs'
/// `stop` has returned true, the rest of the work is skipped, which can only lower the bound.
IterationBound iteration_bound(const BoundInputs& inputs, const PlanLimits& limits = {});

/// Smallest number of stages with which the job may fit in memory; 0 if there is none.
int min_stages(const BoundInputs& inputs);

}  // namespace dtfm::cost
