#include "cli/plan/judged_search.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "cli/plan/search_end.hpp"
#include "cli/common/words.hpp"
#include "planner/core/index.hpp"

namespace dtfm::cli {
namespace {

/// The order in which the judge ranks them; those that he could not run come last.
std::vector<std::size_t> ranked(const std::vector<search::PlanCandidate>& candidates,
                                const std::vector<Judgement>& judgements, const search::PlanScore& score) {
  std::vector<std::size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto value = [&](std::size_t i) {
    const double seconds = judgements[i].seconds;
    if (!std::isfinite(seconds)) return seconds;
    const search::PlanCandidate& it = candidates[i];
    return score.of(seconds, score.total_weight(it.plan), it.egress_usd, it.moving);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return value(a) < value(b); });
  return order;
}

/// What the judge goes by: the search has found how long moving takes.
search::PlanScore score_of(const search::IterationSearchOptions& options, const Topology& topology) {
  if (!options.warm) return {options.objective, topology};
  return {options.objective, topology, nullptr, options.warm->horizon_s};
}

std::vector<std::string> notes_of(const search::IterationSearchResult& result, const Topology& topology) {
  std::vector<std::string> notes = stop_notes(result.stopped, "plan");
  if (!result.unpriced.empty())
    notes.push_back(
        fmt::format("{} without a price left out, {} first; the topology may give it one: `price: 1.2 USD/h`",
                    counted(static_cast<long long>(result.unpriced.size()), "device"),
                    topology.devices[at(result.unpriced.front())].id));
  if (!result.unusable.empty())
    notes.push_back(fmt::format(
        "{} cannot be used, {} first: {}", counted(static_cast<long long>(result.unusable.size()), "device"),
        topology.devices[at(result.unusable.front().first)].id, result.unusable.front().second));
  return notes;
}

/// Does the simulator's word count? If not, a note says why. Runs that were cut short say nothing.
bool is_judged(JudgedSearch& search, const std::vector<Judgement>& judgements, const InterruptWatch& watch) {
  if (watch.interrupted()) {
    if (search.found.stopped != search::Stopped::interrupted)
      search.notes.push_back(
          "interrupted before the finalists were simulated: this is the best by its estimate");
    search.found.stopped = search::Stopped::interrupted;
    return false;
  }
  const bool is_refused = std::all_of(judgements.begin(), judgements.end(),
                                      [](const Judgement& it) { return !it.error.empty(); });
  if (is_refused)
    search.notes.emplace_back("the plans could not be simulated, and this is the best by its estimate: " +
                              judgements.front().error);
  return !is_refused;
}

}  // namespace

JudgedSearch judged_search(const Problem& problem, const search::IterationSearchOptions& options,
                           const std::vector<JudgedScenario>& scenarios, Robust robust,
                           const InterruptWatch& watch) {
  JudgedSearch search;
  if (options.keeps_front) search.front = search::search_pareto(problem, options);
  search.found = search.front ? search.front->result : search::search_iteration(problem, options);
  search.notes = notes_of(search.found, problem.topology);
  const std::vector<search::PlanCandidate>& finalists = search.found.finalists;
  search.plans = {finalists.front()};
  if (!search.fits()) return search;
  std::vector<Judgement> judgements;
  if (!watch.interrupted())
    judgements = judged(search.front ? search.front->candidates : finalists, scenarios, robust,
                        options.common.threads, watch.stop());
  if (!is_judged(search, judgements, watch)) return search;
  search.plans.clear();
  if (search.front) search.judgements_of_front = judgements;
  for (const std::size_t i : ranked(finalists, judgements, score_of(options, problem.topology))) {
    search.plans.push_back(finalists[i]);
    search.judgements.push_back(judgements[i]);
  }
  return search;
}

}  // namespace dtfm::cli
