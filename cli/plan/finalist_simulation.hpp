// The simulator has the last word on which of a few plans is best.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "planner/io/writers/plan_json.hpp"
#include "planner/search/iteration_time/plan_candidate.hpp"
#include "simulator/scenario/scenario.hpp"

namespace dtfm::cli {

/// Over all scenarios: the mean of the means, or the largest 95th percentile, or the longest time of an
/// iteration.
enum class RobustCriterion { mean, p95, worst };

/// The machines as the topology says, and what else may happen to them.
struct NamedScenario {
  std::string name;
  sim::Scenario scenario;
};

struct FinalistResult {
  std::string error;                                           // why it could not be simulated; empty: it was
  std::vector<io::PlanRecord::Finalist::Simulated> simulated;  // by scenario
  double seconds =
      0;  // of an iteration, as `robust` counts; infinite where none was completed or memory lacks
};

/// One for each of `candidates`; of a scenario in which chance plays a part, the mean of some runs. The same
/// for any number of threads. Runs that `stop` ends count as far as they came.
std::vector<FinalistResult> simulate_finalists(const std::vector<search::PlanCandidate>& candidates,
                                               const std::vector<NamedScenario>& scenarios,
                                               RobustCriterion robust, int threads,
                                               const std::function<bool()>& stop);

/// As the simulator takes it: drains of the candidate are in the job.
Problem simulated_problem(const search::PlanCandidate& candidate);

}  // namespace dtfm::cli
