#include "cli/plan/search_termination.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "cli/common/text_formatting.hpp"

namespace dtfm::cli {

io::PlanRecord::Search make_search_record(const PlanOptions& options, long long evaluations,
                                          search::Stopped stopped,
                                          const std::vector<search::ConvergencePoint>& convergence) {
  io::PlanRecord::Search record{
      options.strategy, options.seed, evaluations, std::string(name_of(stopped)), {}};
  for (const auto& [evaluated, best] : convergence) record.convergence.emplace_back(evaluated, best);
  return record;
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
