#include "cli/plan/pareto.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "cli/common/plan_formatting.hpp"
#include "cli/common/style.hpp"
#include "cli/common/text_formatting.hpp"
#include "cli/plan/plan_record.hpp"
#include "cli/plan/search_termination.hpp"

namespace dtfm::cli {

io::ParetoRecord make_pareto_record(const PlanOptions& options, const search::ParetoSearch& search,
                                    const std::vector<api::FinalistResult>& finalist_results) {
  io::ParetoRecord record;
  for (const api::ParetoPoint& point : api::pareto_points(search, finalist_results)) {
    const search::PlanCandidate& candidate = search.candidates[point.candidate];
    io::PlanRecord plan = make_plan_record(options, candidate);
    plan.finalists.push_back({candidate, {}, {}});
    if (!finalist_results.empty())
      plan.finalists.front().simulated = finalist_results[point.candidate].simulated;
    record.points.push_back({point, candidate, std::move(plan)});
  }
  record.search = {options.strategy, options.seed, search.evaluations, search.stopped, {}};
  record.warnings = search.notes;
  if (finalist_results.empty() && !record.points.empty())
    record.warnings.emplace_back("the plans were not simulated: this front is based on estimates");
  for (const std::string& note : stop_notes(search.stopped, "front")) record.warnings.push_back(note);
  const auto late = std::count_if(finalist_results.begin(), finalist_results.end(),
                                  [](const api::FinalistResult& it) { return it.was_stopped; });
  if (late > 0)
    record.warnings.push_back(
        fmt::format("{} could not be simulated within the time limit and {} not in the front",
                    format_count(late, "plan"), late == 1 ? "is" : "are"));
  record.version = DTFM_VERSION;
  return record;
}

std::string format_pareto_front(const io::ParetoRecord& record, const std::string& file) {
  constexpr std::size_t max_shown = 8;
  const std::size_t count = record.points.size(), shown = std::min(max_shown, count);
  if (count == 0) return "";
  Rows rows = {{"iteration s", "USD", "devices", "stages × replicas", "recompute, schedule, gradient sync"}};
  for (std::size_t i = 0; i < shown; ++i) {
    const auto& [costs, candidate, _] = record.points[shown < 2 ? 0 : i * (count - 1) / (shown - 1)];
    const api::ParetoPoint::Cost& cost = costs.simulated ? *costs.simulated : costs.estimated;
    const Plan& plan = candidate.plan;
    rows.push_back(
        {short_seconds(cost.iteration_s), cost.usd ? fmt::format("{:.4g}", *cost.usd) : "?",
         fmt::format("{}", costs.devices), format_shape(plan),
         fmt::format("{}, {}, {}{}", name_of(plan.execution.recomputation), name_of(plan.execution.schedule),
                     name_of(plan.execution.gradient_sync), format_sharding(plan.execution))});
  }
  return fmt::format(
      "{}\n{}",
      styled(Style::heading, fmt::format("Pareto front of time, cost and devices: {} in {}",
                                         format_count(static_cast<long long>(count), "plan"), file)),
      table(rows));
}

}  // namespace dtfm::cli
