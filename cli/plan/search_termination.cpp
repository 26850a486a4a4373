#include "cli/plan/search_termination.hpp"

#include <fmt/format.h>

#include "cli/common/text_formatting.hpp"
#include "core/base/index.hpp"

namespace dtfm::cli {
namespace {

std::string_view format_stopped(search::Stopped stopped) {
  switch (stopped) {
    case search::Stopped::evaluations:
      return "stopped by --evaluations";
    case search::Stopped::converged:
      return "search converged";
    case search::Stopped::optimal:
      return "search ended with a plan that is proven optimal";
    case search::Stopped::complete:
      return "search completed";
    case search::Stopped::time_limit:
      return "stopped by --time-limit";
    case search::Stopped::interrupted:
      break;
  }
  return "interrupted";
}

}  // namespace

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
  if (result.simulation == api::SimulationStatus::late)
    notes.emplace_back(
        "no finalist could be simulated within the time limit: this is the plan with the best estimate");
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
  return fmt::format("{} after {}", format_stopped(search.stopped),
                     format_count(search.evaluations, "evaluation"));
}

}  // namespace dtfm::cli
