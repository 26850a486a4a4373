#include "cli/plan/pareto.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "cli/common/plan_formatting.hpp"
#include "cli/common/style.hpp"
#include "cli/common/text_formatting.hpp"
#include "cli/plan/plan_decisions.hpp"
#include "cli/plan/plan_record.hpp"
#include "cli/plan/search_termination.hpp"

namespace dtfm::cli {
namespace {

io::ParetoPoint::Cost make_cost(const api::ParetoPoint::Cost& cost) {
  return {cost.iteration_s, cost.usd};
}

io::ParetoPoint make_pareto_point(const PlanOptions& options, const api::ParetoPoint& costs,
                                  const search::PlanCandidate& candidate,
                                  const api::FinalistResult* finalist_result) {
  io::ParetoPoint point;
  point.estimated = make_cost(costs.estimated);
  if (costs.simulated) point.simulated = make_cost(*costs.simulated);
  point.devices = costs.devices;
  point.decisions = plan_decisions(candidate);
  std::erase_if(point.decisions, [](const io::PlanRecord::Decision& it) {
    return it.name == "tensor" ||
           ((it.name == "chunks" || it.name == "flush") && std::get<int>(it.value) == 0);
  });
  point.job = api::simulated_problem(candidate).job;
  point.plan = candidate.plan;
  point.record = make_plan_record(options, candidate);
  point.record.finalists = {make_finalist(candidate)};
  if (finalist_result) point.record.finalists.front().simulated = make_simulated(finalist_result->simulated);
  return point;
}

}  // namespace

io::ParetoRecord make_pareto_record(const PlanOptions& options, const search::ParetoSearch& search,
                                    const std::vector<api::FinalistResult>& finalist_results) {
  PlanOptions options_without_explanation = options;
  options_without_explanation.explain = false;
  io::ParetoRecord record;
  for (const api::ParetoPoint& point : api::pareto_points(search, finalist_results))
    record.points.push_back(
        make_pareto_point(options_without_explanation, point, search.candidates[point.candidate],
                          finalist_results.empty() ? nullptr : &finalist_results[point.candidate]));
  record.search = {options.strategy, options.seed, search.evaluations, search.stopped, {}};
  record.warnings = search.notes;
  if (finalist_results.empty() && !record.points.empty())
    record.warnings.emplace_back("the plans were not simulated: this front is based on estimates");
  for (const std::string& note : stop_notes(search.stopped, "front")) record.warnings.push_back(note);
  record.version = DTFM_VERSION;
  return record;
}

std::string format_pareto_front(const io::ParetoRecord& record, const std::string& file) {
  constexpr std::size_t max_shown = 8;
  const std::size_t count = record.points.size(), shown = std::min(max_shown, count);
  if (count == 0) return "";
  std::vector<const io::ParetoPoint*> some;
  for (std::size_t i = 0; i < shown; ++i)
    some.push_back(&record.points[shown < 2 ? 0 : i * (count - 1) / (shown - 1)]);
  Rows rows = {{"iteration s", "USD", "devices", "stages × replicas", "recompute, schedule, gradient sync"}};
  for (const io::ParetoPoint* it : some) {
    const io::ParetoPoint::Cost& cost = it->simulated ? *it->simulated : it->estimated;
    rows.push_back(
        {short_seconds(cost.iteration_time_s), cost.usd ? fmt::format("{:.4g}", *cost.usd) : "?",
         fmt::format("{}", it->devices),
         format_shape(depth(it->plan), static_cast<int>(it->plan.pipelines.size()), it->plan.tensor),
         fmt::format("{}, {}, {}", name_of(it->job.execution.recomputation),
                     name_of(it->plan.execution.schedule), name_of(it->plan.execution.gradient_sync))});
  }
  return fmt::format(
      "{}\n{}",
      styled(Style::heading, fmt::format("Pareto front of time, cost and devices: {} in {}",
                                         format_count(static_cast<long long>(count), "plan"), file)),
      table(rows));
}

}  // namespace dtfm::cli
