#include "cli/plan/search_termination.hpp"

#include <array>

#include <fmt/format.h>

#include "cli/common/text_formatting.hpp"
#include "planner/core/index.hpp"

namespace dtfm::cli {

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
  constexpr std::array<std::string_view, 6> words = {"stopped by --evaluations",
                                                     "search converged",
                                                     "search ended with a plan that is proven optimal",
                                                     "search completed",
                                                     "stopped by --time-limit",
                                                     "interrupted"};
  return fmt::format("{} after {}", words[static_cast<std::size_t>(search.stopped)],
                     format_count(search.evaluations, "evaluation"));
}

}  // namespace dtfm::cli
