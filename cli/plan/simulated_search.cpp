#include "cli/plan/simulated_search.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "cli/common/text_formatting.hpp"
#include "cli/plan/search_termination.hpp"
#include "planner/core/index.hpp"

namespace dtfm::cli {
namespace {

/// The order in which the judge ranks them; those that he could not run come last.
std::vector<std::size_t> rank_by_simulation(const std::vector<search::PlanCandidate>& candidates,
                                            const std::vector<FinalistResult>& finalist_results,
                                            const search::PlanScore& score) {
  std::vector<std::size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto value = [&](std::size_t i) {
    const double seconds = finalist_results[i].seconds;
    if (!std::isfinite(seconds)) return seconds;
    const search::PlanCandidate& it = candidates[i];
    return score.of(seconds, score.total_weight(it.plan), it.egress_usd, it.migration);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return value(a) < value(b); });
  return order;
}

/// What the judge goes by: the search has found how long moving takes.
search::PlanScore simulation_score(const search::IterationSearchOptions& options, const Topology& topology) {
  if (!options.warm) return {options.objective, topology};
  return {options.objective, topology, nullptr, options.warm->horizon_s};
}

std::vector<std::string> search_notes(const search::IterationSearchResult& result, const Topology& topology) {
  std::vector<std::string> notes = stop_notes(result.stopped, "plan");
  if (!result.unpriced.empty())
    notes.push_back(
        fmt::format("{} without a price left out, {} first; the topology may give it one: `price: 1.2 USD/h`",
                    format_count(static_cast<long long>(result.unpriced.size()), "device"),
                    topology.devices[at(result.unpriced.front())].id));
  if (!result.unusable.empty())
    notes.push_back(fmt::format("{} cannot be used, {} first: {}",
                                format_count(static_cast<long long>(result.unusable.size()), "device"),
                                topology.devices[at(result.unusable.front().first)].id,
                                result.unusable.front().second));
  return notes;
}

/// Does the simulator's word count? If not, a note says why. Runs that were cut short say nothing.
bool has_usable_results(SimulatedSearch& search, const std::vector<FinalistResult>& finalist_results,
                        const InterruptWatch& watch) {
  if (watch.interrupted()) {
    if (search.found.stopped != search::Stopped::interrupted)
      search.notes.push_back(
          "interrupted before the finalists were simulated: this is the best by its estimate");
    search.found.stopped = search::Stopped::interrupted;
    return false;
  }
  const bool all_failed = std::all_of(finalist_results.begin(), finalist_results.end(),
                                      [](const FinalistResult& it) { return !it.error.empty(); });
  if (all_failed)
    search.notes.emplace_back("the plans could not be simulated, and this is the best by its estimate: " +
                              finalist_results.front().error);
  return !all_failed;
}

}  // namespace

SimulatedSearch search_and_simulate(const Problem& problem, const search::IterationSearchOptions& options,
                                    const std::vector<NamedScenario>& scenarios, RobustCriterion robust,
                                    const InterruptWatch& watch) {
  SimulatedSearch search;
  if (options.keeps_pareto_front) search.front = search::search_pareto(problem, options);
  search.found = search.front ? search.front->result : search::search_iteration(problem, options);
  search.notes = search_notes(search.found, problem.topology);
  const std::vector<search::PlanCandidate>& finalists = search.found.finalists;
  search.plans = {finalists.front()};
  if (!search.fits()) return search;
  std::vector<FinalistResult> finalist_results;
  if (!watch.interrupted())
    finalist_results = simulate_finalists(search.front ? search.front->candidates : finalists, scenarios,
                                          robust, options.common.threads, watch.stop());
  if (!has_usable_results(search, finalist_results, watch)) return search;
  search.plans.clear();
  if (search.front) search.pareto_results = finalist_results;
  for (const std::size_t i :
       rank_by_simulation(finalists, finalist_results, simulation_score(options, problem.topology))) {
    search.plans.push_back(finalists[i]);
    search.finalist_results.push_back(finalist_results[i]);
  }
  return search;
}

}  // namespace dtfm::cli
