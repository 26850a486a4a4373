#include "cli/plan/score_by_iteration_time.hpp"

#include <cmath>
#include <limits>
#include <memory>

#include "cli/common/main_guard.hpp"
#include "cli/common/output_check.hpp"
#include "cli/common/plan_formatting.hpp"
#include "cli/common/plan_notes.hpp"
#include "cli/plan/iteration_summary.hpp"
#include "cli/plan/plan_record.hpp"
#include "cli/plan/search_from_options.hpp"
#include "planner/core/shards.hpp"
#include "simulator/calibration/prediction.hpp"

namespace dtfm::cli {
namespace {

/// The job of a plan file says the shape of that plan, and its drains: those are the planner's to choose.
Problem without_shape_limits(const PlanOptions& options, Problem problem) {
  if (options.job) return problem;
  problem.job.parallelism.pipeline.reset();
  problem.job.parallelism.data.reset();
  problem.job.parallelism.flush.reset();
  return problem;
}

/// Of a plan that was made elsewhere; where the simulator says nothing, why, and its time is infinite.
FinalistResult simulate_scored_plan(const search::PlanCandidate& plan,
                                    const std::vector<NamedScenario>& scenarios, const PlanOptions& options,
                                    const InterruptWatch& watch) {
  FinalistResult none;
  none.seconds = std::numeric_limits<double>::infinity();
  if (plan.deficit_bytes > 0) {
    none.error = "the plan does not fit the memory of its devices: " + format_memory_deficit(plan);
    return none;
  }
  FinalistResult finalist_result =
      simulate_finalists({plan}, scenarios, options.robust.value_or(RobustCriterion::mean), options.threads,
                         watch.stop())
          .front();
  if (watch.interrupted()) return none;  // runs that were cut short say nothing
  if (finalist_result.error.empty()) return finalist_result;
  none.error = "the plan could not be simulated: " + finalist_result.error;
  return none;
}

/// What is minimised, as the judge counts.
double value_of(const search::PlanScore& score, const search::PlanCandidate& candidate,
                const FinalistResult& finalist_result) {
  return score.of(finalist_result.seconds, score.total_weight(candidate.plan), candidate.egress_usd);
}

/// Nothing where no plan was simulated.
std::optional<io::PlanRecord::Advice> make_advice(const PlanOptions& options, const Problem& problem,
                                                  const std::vector<NamedScenario>& scenarios,
                                                  const search::PlanScore& score, double value,
                                                  InterruptWatch& watch) {
  ProgressPrinter printer(options.quiet, "dtfm-plan");
  const SimulatedSearch search = search_from_options(
      options, problem, iteration_search_options(options, problem, printer, watch), scenarios, watch);
  if (search.finalist_results.empty()) return std::nullopt;
  const double best = value_of(score, search.best(), search.finalist_results.front());
  if (!std::isfinite(best)) return std::nullopt;
  return io::PlanRecord::Advice{
      make_finalists(search).front(),
      format_job_decisions(simulated_problem(search.best()).job, search.best().plan),
      std::isfinite(value) ? std::optional(1 - best / value) : std::nullopt};
}

}  // namespace

int score_by_iteration_time(const PlanOptions& options, const Problem& given,
                            const std::optional<CalibrationUncertainty>& spread, const Plan& plan,
                            const std::vector<std::string>& notes, const io::ReadLog& read,
                            InterruptWatch& watch) {
  const std::vector<NamedScenario> scenarios = read_scenarios(options, given.topology);
  check_not_read(read, output_files(options));
  const std::vector<std::string> choices = undecided_notes(given.job);
  Problem problem = given;
  problem.job.automatic = {};
  problem.job.parallelism.tensor = plan.tensor;
  const auto network = std::make_shared<const cost::NetworkCost>(problem.topology, problem.constants);
  const auto job =
      std::make_shared<const search::DecidedJob>(problem, problem.job, tensor_degrees(plan), network);
  for (const int device : pipeline_major(plan))
    if (const std::string& unknown = job->model.unknown(device); !unknown.empty()) throw Error("", unknown);
  const search::PlanScore score(*search::objective_named(options.objective), problem.topology);
  const search::PlanCandidate candidate = search::evaluate_plan(job, plan, 0, score);
  io::PlanRecord record = make_plan_record(options, candidate);
  for (const auto& more : {notes, choices, batch_notes(plan, problem.job)}) add_notes(more, record);
  const bool fits = candidate.deficit_bytes <= 0;
  io::PlanRecord::Finalist& only = record.finalists.emplace_back(make_finalist(candidate));
  FinalistResult finalist_result = simulate_scored_plan(candidate, scenarios, options, watch);
  if (!finalist_result.error.empty()) record.warnings.push_back(finalist_result.error);
  only.simulated = finalist_result.simulated;
  add_notes(no_progress_notes(only), record);
  if (spread && !only.simulated.empty())
    record.interval =
        sim::time_interval(simulated_problem(candidate), plan, *spread, nominal_seconds(record));
  watch.keep_result();  // the score is there, whatever becomes of the advice
  if (options.advise && !watch.interrupted())
    record.advice = make_advice(options, without_shape_limits(options, given), scenarios, score,
                                value_of(score, candidate, finalist_result), watch);
  if (options.advise && !record.advice && watch.interrupted())
    record.warnings.push_back("interrupted before there was a plan to advise");
  write_iteration_plan(options, {simulated_problem(candidate), plan, record}, watch.stop());
  if (watch.interrupted()) return exit_code::interrupted;
  return fits ? exit_code::done : exit_code::infeasible;
}

}  // namespace dtfm::cli
