#include "planner/api/checkpoint_period.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/infinity.hpp"
#include "simulator/run/checkpoint_period.hpp"

namespace dtfm::api {
namespace {

bool leaves_period_open(const NamedScenario& named) {
  return sim::has_automatic_period(named.scenario);
}

/// Simulates one plan with several periods. The times under other scenarios do not depend on them.
class PeriodTrials {
 public:
  PeriodTrials(const search::PlanCandidate& candidate, const std::vector<NamedScenario>& scenarios,
               RobustCriterion robust, const Work& work)
      : candidate_(candidate), scenarios_(scenarios), robust_(robust), work_(work) {}

  /// One result per period, like `result` under the other scenarios. Empty if it was stopped.
  std::vector<FinalistResult> simulate(const std::vector<double>& periods_s,
                                       const FinalistResult& result) const {
    std::vector<NamedScenario> all;
    for (const double period_s : periods_s)
      for (const NamedScenario& it : scenarios_)
        if (leaves_period_open(it)) all.push_back(with_checkpoint_period(it, period_s));
    const FinalistResult simulated = simulate_finalists({candidate_}, all, robust_, work_).front();
    if (simulated.was_stopped) return {};
    std::vector<FinalistResult> results(periods_s.size(), result);
    auto times = simulated.simulated.begin();
    for (std::size_t i = 0; i < results.size(); ++i) {
      results[i].checkpoint_period = {periods_s[i], PeriodSource::simulation};
      for (std::size_t s = 0; s < scenarios_.size(); ++s)
        if (leaves_period_open(scenarios_[s])) results[i].simulated[s] = *times++;
      results[i].seconds = aggregate_seconds(results[i].simulated, scenarios_, robust_);
    }
    return results;
  }

 private:
  const search::PlanCandidate& candidate_;
  const std::vector<NamedScenario>& scenarios_;
  const RobustCriterion robust_;
  const Work& work_;
};

}  // namespace

std::optional<double> first_checkpoint_period_s(const search::PlanCandidate& candidate,
                                                const std::vector<NamedScenario>& scenarios) {
  std::optional<double> shortest_s;
  for (const NamedScenario& it : scenarios)
    if (leaves_period_open(it))
      shortest_s =
          std::min(shortest_s.value_or(infinity),
                   sim::young_daly_period_s(simulated_problem(candidate), candidate.plan, it.scenario));
  return shortest_s;
}

NamedScenario with_checkpoint_period(NamedScenario named, double period_s) {
  return {std::move(named.name), sim::with_checkpoint_period(std::move(named.scenario), period_s)};
}

/// The grid has a factor of 2 between periods: if the loss is C/T + T/2M with period T, time to write C and
/// mean time between failures M (Young 1974), the loss at √2 times the best period, the largest distance from
/// the grid, is 6 % above the minimum. Two steps to each side bridge noise of a single run. The grid grows
/// while its best period is at an end. This terminates: periods shorter than an iteration, or longer than the
/// run, give equal times.
void choose_checkpoint_period(const search::PlanCandidate& candidate,
                              const std::vector<NamedScenario>& scenarios, RobustCriterion robust,
                              const Work& work, FinalistResult& result) {
  if (!result.checkpoint_period || result.checkpoint_period->source != PeriodSource::young_daly) return;
  if (std::isinf(result.checkpoint_period->seconds) || result.was_stopped || !result.error.empty()) return;
  const PeriodTrials trials(candidate, scenarios, robust, work);
  const double first_s = result.checkpoint_period->seconds;
  int shortest = -2, best = 0, longest = 2;  // powers of two
  for (std::vector<int> next = {-1, 1, -2, 2}; !next.empty();) {
    std::vector<double> periods_s;
    for (const int power : next) periods_s.push_back(std::ldexp(first_s, power));
    const std::vector<FinalistResult> results = trials.simulate(periods_s, result);
    if (results.empty()) return;
    result.checkpoint_period->source = PeriodSource::simulation;
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!(results[i].seconds < result.seconds)) continue;
      best = next[i];
      result = results[i];
    }
    next.clear();
    if (best == shortest) next.push_back(--shortest);
    if (best == longest) next.push_back(++longest);
  }
}

}  // namespace dtfm::api
