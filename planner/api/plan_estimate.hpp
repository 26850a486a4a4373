// Results of the closed formulas for a plan by iteration time: its estimate, its bottleneck, and a lower
// bound.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/api/finalist_simulation.hpp"
#include "planner/cost/explanation/explain_plan.hpp"
#include "planner/cost/iteration_time/iteration_time.hpp"
#include "planner/search/iteration_time/iteration_search.hpp"

namespace dtfm::api {

using cost::Change;

struct PlanEstimate {
  double iteration_s = 0, tokens_per_s = 0, model_flops_per_s = 0;
  double pipelines_s = 0;                        // until the last pipeline has finished its micro-batches
  double exposed_sync_s = 0;                     // gradient synchronization after that
  double update_s = 0, overhead_s = 0;           // of the optimizer, and of the iteration as a whole
  std::optional<double> usd_per_million_tokens;  // devices and egress; empty if a price is unknown
  double egress_usd_per_million_tokens = 0;      // 0 if a price is unknown
  std::vector<cost::DeviceMemory> memory;        // of the devices in use

  /// Names of the parts of an iteration, and their seconds.
  std::array<std::pair<const char*, double>, 4> breakdown() const {
    return {{{"pipelines", pipelines_s},
             {"exposed_gradient_sync", exposed_sync_s},
             {"optimizer_step", update_s},
             {"overhead", overhead_s}}};
  }
};
PlanEstimate estimate_plan(const search::PlanCandidate& candidate);

/// What limits the plan, what single changes would help, and when it would become compute-bound. The result
/// does not depend on the number of threads. Empty if the work was stopped.
std::optional<cost::PlanExplanation> explain_plan(const search::PlanCandidate& candidate, const Work& work);

/// Seconds of an iteration under the first scenario: the simulated mean, or the estimate if `simulated` is
/// empty or no iteration was completed.
double first_scenario_seconds(const search::PlanCandidate& candidate,
                              const std::vector<SimulatedTimes>& simulated);

/// A lower bound of the objective, in its unit: s, USD per million tokens, or device-seconds.
struct PlanBound {
  double value = 0;
  double cost = 0;     // of the plan; below `value` only if bound or cost is wrong
  std::string method;  // the components of the bound, as text

  /// (cost − value) ÷ cost, but 0 if the cost is below the value.
  double gap() const { return cost > value ? (cost - value) / cost : 0; }
};

/// The bound for all plans with the decisions of `best` within the limits of the search; the cost of `best`
/// is that of `first_scenario_seconds`. Empty if no plan fits in memory, if `best` has no iteration barrier,
/// and for models of more than 2000 layers, where it would take longer than the search. If the search is
/// stopped or its time limit has passed, the bound may be lower, or empty.
std::optional<PlanBound> lower_bound(const search::IterationSearchOptions& options,
                                     const search::PlanCandidate& best,
                                     const std::vector<SimulatedTimes>& simulated);

}  // namespace dtfm::api
