#include "cli/plan/score_by_iteration_time.hpp"

#include <cmath>

#include "cli/common/main_guard.hpp"
#include "cli/common/output_check.hpp"
#include "cli/common/plan_formatting.hpp"
#include "planner/io/plan_notes.hpp"
#include "cli/plan/iteration_summary.hpp"
#include "cli/plan/plan_record.hpp"
#include "cli/plan/search_from_options.hpp"

namespace dtfm::cli {
namespace {

/// Removes the shape and the pipeline flushes from a job that comes from the plan file. There they are
/// decisions of the planner, which must not limit another search.
Problem without_shape_limits(const PlanOptions& options, Problem problem) {
  if (options.job) return problem;
  problem.job.parallelism.pipeline.reset();
  problem.job.parallelism.data.reset();
  problem.job.execution.flush.reset();
  return problem;
}

/// Why the simulator gave no times; empty if it did, or if the user interrupted it.
std::vector<std::string> simulation_notes(const api::ScoreResult& scored) {
  if (scored.simulation == api::SimulationStatus::out_of_memory)
    return {"the plan does not fit the memory of its devices: " + format_memory_deficit(scored.candidate)};
  if (scored.simulation == api::SimulationStatus::failed)
    return {"the plan could not be simulated: " + scored.result.error};
  return {};
}

/// Returns what the planner would do instead; empty if no plan was simulated.
std::optional<io::PlanRecord::Advice> make_advice(const PlanOptions& options, const Problem& problem,
                                                  const std::vector<api::NamedScenario>& scenarios,
                                                  Objective objective, double value, InterruptWatch& watch) {
  ProgressPrinter printer(options.quiet, "dtfm-plan");
  const api::PlanResult search =
      plan_or_name_source(options, plan_request(options, problem, scenarios, printer, watch));
  if (search.finalist_results.empty()) return std::nullopt;
  const double best = api::objective_value(objective, search.best(), search.finalist_results.front().seconds);
  if (!std::isfinite(best)) return std::nullopt;
  return io::PlanRecord::Advice{
      {search.best(), search.simulated(), search.finalist_results.front().sensitivity},
      format_job_decisions(api::simulated_problem(search.best()).job, search.best().plan),
      std::isfinite(value) ? std::optional(1 - best / value) : std::nullopt};
}

}  // namespace

int score_by_iteration_time(const PlanOptions& options, const Problem& given,
                            const std::optional<CalibrationUncertainty>& spread,
                            const io::PlanAndNotes& plan_and_notes,
                            const std::vector<TargetChange>& target_changes, const io::ReadLog& read,
                            InterruptWatch& watch) {
  const Plan& plan = plan_and_notes.plan;
  const std::vector<api::NamedScenario> scenarios = read_scenarios(options, given.topology);
  check_not_read(read, output_files(options));
  const Objective objective = options.objective;
  const Work work{options.work.threads, nullptr, watch.stop()};
  const api::ScoreResult scored =
      api::score({given, plan, objective, scenarios, options.robust.value_or(api::RobustCriterion::mean),
                  work, spread, plan_and_notes.checkpoint_period_s});
  const search::PlanCandidate& candidate = scored.candidate;
  io::PlanRecord record = make_plan_record(options, candidate);
  add_explanation(options, candidate, work, record);
  for (const auto& more : {plan_and_notes.notes, io::batch_notes(plan, candidate.job->problem.job)})
    add_notes(more, record);
  add_notes(simulation_notes(scored), record);
  record.finalists.push_back({candidate, scored.result.simulated, scored.result.sensitivity});
  add_notes(no_progress_notes(scored.result.simulated), record);
  record.checkpoint_period = scored.result.checkpoint_period;
  record.interval = scored.interval;
  record.target_changes = target_changes;
  add_target_times(api::simulated_problem(candidate), plan, scored.result.simulated, work, record);
  watch.keep_result();  // the score is complete, whether or not the advice will be
  if (options.advise && !watch.interrupted())
    record.advice = make_advice(options, without_shape_limits(options, given), scenarios, objective,
                                api::objective_value(objective, candidate, scored.result.seconds), watch);
  if (options.advise && !record.advice && watch.interrupted())
    record.warnings.push_back("interrupted before there was a plan to advise");
  write_iteration_plan(options, {api::simulated_problem(candidate), plan, record}, watch.stop());
  if (watch.interrupted()) return exit_code::interrupted;
  return scored.fits() && std::isfinite(scored.result.seconds) ? exit_code::done : exit_code::infeasible;
}

}  // namespace dtfm::cli
