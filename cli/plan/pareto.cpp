#include "cli/plan/pareto.hpp"

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "cli/plan/iteration_record.hpp"
#include "cli/plan/plan_decisions.hpp"
#include "cli/common/plan_words.hpp"
#include "cli/plan/search_end.hpp"
#include "cli/common/style.hpp"
#include "cli/common/words.hpp"
#include "planner/core/index.hpp"
#include "planner/search/iteration_time/plan_front.hpp"

namespace dtfm::cli {
namespace {

/// Of the candidate, if an iteration takes so long.
io::ParetoPoint::Cost cost_of(const search::PlanCandidate& candidate, double iteration_s) {
  return {iteration_s,
          search::usd_of(candidate.job->problem.topology, candidate.plan, iteration_s, candidate.egress_usd)};
}

search::PlanMeasure measure_of(const io::ParetoPoint::Cost& cost, const search::PlanCandidate& candidate) {
  return {cost.iteration_time_s, cost.usd.value_or(std::numeric_limits<double>::infinity()),
          static_cast<int>(pipeline_major(candidate.plan).size())};
}

io::ParetoPoint point_of(const PlanOptions& options, const search::PlanCandidate& candidate, const Judgement* judgement) {
  io::ParetoPoint point;
  point.estimated = cost_of(candidate, candidate.iteration_s);
  if (judgement) point.simulated = cost_of(candidate, judgement->seconds);
  point.devices = static_cast<int>(pipeline_major(candidate.plan).size());
  point.decisions = decisions_of(candidate);
  std::erase_if(point.decisions, [](const io::PlanRecord::Decision& it) {
    return it.name == "tensor" ||
           ((it.name == "chunks" || it.name == "flush") && std::get<int>(it.value) == 0);
  });
  point.job = problem_of(candidate).job;
  point.plan = candidate.plan;
  point.record = record_of(options, candidate);
  point.record.finalists = {finalist_of(candidate)};
  if (judgement) point.record.finalists.front().simulated = judgement->simulated;
  return point;
}

}  // namespace

io::ParetoRecord pareto_record(const PlanOptions& options, const search::ParetoSearch& search,
                           const std::vector<Judgement>& judgements) {
  PlanOptions quick = options;
  quick.explain = false;
  std::vector<std::size_t> known;
  std::vector<search::PlanMeasure> measures;
  for (std::size_t i = 0; i < search.candidates.size(); ++i) {
    const search::PlanCandidate& it = search.candidates[i];
    const double seconds = judgements.empty() ? it.iteration_s : judgements[i].seconds;
    if (it.lacking > 0 || !std::isfinite(seconds)) continue;
    known.push_back(i);
    measures.push_back(measure_of(cost_of(it, seconds), it));
  }
  io::ParetoRecord record;
  for (const std::size_t i : search::undominated(measures))
    record.points.push_back(
        point_of(quick, search.candidates[known[i]], judgements.empty() ? nullptr : &judgements[known[i]]));
  record.search = search_record(options, search.evaluations, search.stopped, {});
  record.warnings = search.notes;
  if (judgements.empty() && !record.points.empty())
    record.warnings.emplace_back("the plans were not simulated: this front is by their estimates");
  for (const std::string& note : stop_notes(search.stopped, "front")) record.warnings.push_back(note);
  record.version = DTFM_VERSION;
  return record;
}

std::string pareto_text(const io::ParetoRecord& record, const std::string& file) {
  constexpr std::size_t most = 8;
  const std::size_t count = record.points.size(), shown = std::min(most, count);
  if (count == 0) return "";
  std::vector<const io::ParetoPoint*> some;
  for (std::size_t i = 0; i < shown; ++i)
    some.push_back(&record.points[shown < 2 ? 0 : i * (count - 1) / (shown - 1)]);
  Rows rows = {{"iteration s", "USD", "devices", "stages × replicas", "recompute, schedule, exchange"}};
  for (const io::ParetoPoint* it : some) {
    const io::ParetoPoint::Cost& cost = it->simulated ? *it->simulated : it->estimated;
    rows.push_back(
        {short_seconds(cost.iteration_time_s), cost.usd ? fmt::format("{:.4g}", *cost.usd) : "?",
         fmt::format("{}", it->devices),
         shape_in_words(depth(it->plan), static_cast<int>(it->plan.pipelines.size()), it->plan.tensor),
         fmt::format("{}, {}, {}", it->job.training.recompute, it->plan.schedule, it->plan.gradient_sync)});
  }
  return fmt::format(
      "{}\n{}",
      styled(Style::heading, fmt::format("Time against price and devices: {} in {}",
                                         counted(static_cast<long long>(count), "plan"), file)),
      table(rows));
}

}  // namespace dtfm::cli
