// The search by iteration time with the simulator as its judge.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "cli/common/interrupt.hpp"
#include "cli/plan/finalist_simulation.hpp"
#include "planner/search/iteration_time/pareto_search.hpp"

namespace dtfm::cli {

struct SimulatedSearch {
  search::IterationSearchResult found;
  std::vector<search::PlanCandidate>
      plans;  // best first by the simulator; the best by its estimate alone where it was not asked
  std::vector<FinalistResult> finalist_results;  // of each; empty where the simulator was not asked
  std::optional<search::ParetoSearch> front;     // where `keeps_pareto_front`
  std::vector<FinalistResult> pareto_results;    // of each of its candidates, or empty
  std::vector<std::string> notes;  // why it was not, and what else there is to say of the search

  const search::PlanCandidate& best() const { return plans.front(); }
  bool fits() const { return best().deficit_bytes <= 0; }
  /// Does it complete an iteration under every scenario, as far as that was asked?
  bool completes_iteration() const {
    return finalist_results.empty() || std::isfinite(finalist_results.front().seconds);
  }
};

/// Throws what search_iteration does. Plans that do not fit are not simulated.
SimulatedSearch search_and_simulate(const Problem& problem, const search::IterationSearchOptions& options,
                                    const std::vector<NamedScenario>& scenarios, RobustCriterion robust,
                                    const InterruptWatch& watch);

}  // namespace dtfm::cli
