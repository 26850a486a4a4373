#include "cli/plan/search_termination.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "cli/common/text_formatting.hpp"
#include "planner/core/index.hpp"

namespace dtfm::cli {

io::PlanRecord::Search make_search_record(const PlanOptions& options, long long evaluations,
                                          search::Stopped stopped,
                                          const std::vector<search::ConvergencePoint>& convergence) {
  io::PlanRecord::Search record{
      options.strategy, options.seed, evaluations, std::string(name_of(stopped)), {}};
  for (const auto& [evaluated, best] : convergence) record.convergence.emplace_back(evaluated, best);
  return record;
}

std::vector<std::string> search_notes(const api::PlanResult& result, const Topology& topology) {
  const search::IterationSearchResult& found = result.found;
  std::vector<std::string> notes = stop_notes(found.stopped, "plan");
  if (!found.unpriced.empty())
    notes.push_back(
        fmt::format("{} without a price not used, {} first; set it in the topology: `price: 1.2 USD/h`",
                    format_count(static_cast<long long>(found.unpriced.size()), "device"),
                    topology.devices[at(found.unpriced.front())].id));
  if (!found.unusable.empty())
    notes.push_back(fmt::format("{} cannot be used, {} first: {}",
                                format_count(static_cast<long long>(found.unusable.size()), "device"),
                                topology.devices[at(found.unusable.front().first)].id,
                                found.unusable.front().second));
  if (result.simulation == api::SimulationStatus::interrupted &&
      found.stopped != search::Stopped::interrupted)
    notes.emplace_back(
        "interrupted before the finalists were simulated: this is the plan with the best estimate");
  if (result.simulation == api::SimulationStatus::failed)
    notes.emplace_back("the plans could not be simulated, so this is the plan with the best estimate: " +
                       result.simulation_error);
  return notes;
}

std::vector<std::string> stop_notes(search::Stopped stopped, std::string_view noun) {
  if (stopped == search::Stopped::time_limit)
    return {fmt::format("stopped by --time-limit: another run may give another {}", noun)};
  if (stopped == search::Stopped::interrupted)
    return {
        fmt::format("interrupted: this is the best {} so far, and another run may give another one", noun)};
  return {};
}

std::string format_search_end(const io::PlanRecord::Search& search) {
  constexpr std::pair<std::string_view, std::string_view> words[] = {
      {"evaluations", "stopped by --evaluations"},
      {"converged", "search ended by itself"},
      {"optimal", "search ended with a plan that is proven optimal"},
      {"complete", "search ended by itself"},
      {"time-limit", "stopped by --time-limit"},
      {"interrupted", "interrupted"}};
  const auto* const found = std::find_if(std::begin(words), std::end(words),
                                         [&](const auto& it) { return it.first == search.stopped; });
  return fmt::format("{} after {}", found == std::end(words) ? search.stopped : found->second,
                     format_count(search.evaluations, "evaluation"));
}

}  // namespace dtfm::cli
