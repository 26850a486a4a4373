// The search by iteration time with the simulator as its judge.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "cli/common/interrupt.hpp"
#include "cli/plan/judge.hpp"
#include "planner/search/iteration_time/pareto_search.hpp"

namespace dtfm::cli {

struct JudgedSearch {
  search::IterationSearchResult found;
  std::vector<search::PlanCandidate>
      plans;  // best first by the simulator; the best by its estimate alone where it was not asked
  std::vector<Judgement> judgements;           // of each; empty where the simulator was not asked
  std::optional<search::ParetoSearch> front;           // where `keeps_front`
  std::vector<Judgement> judgements_of_front;  // of each of its candidates, or empty
  std::vector<std::string> notes;              // why it was not, and what else there is to say of the search

  const search::PlanCandidate& best() const { return plans.front(); }
  bool fits() const { return best().lacking <= 0; }
  /// Does it complete an iteration under every scenario, as far as that was asked?
  bool is_ever_done() const { return judgements.empty() || std::isfinite(judgements.front().seconds); }
};

/// Throws what search_iteration does. Plans that do not fit are not simulated.
JudgedSearch judged_search(const Problem& problem, const search::IterationSearchOptions& options,
                           const std::vector<JudgedScenario>& scenarios, Robust robust,
                           const InterruptWatch& watch);

}  // namespace dtfm::cli
