#include "cli/plan/iteration_score.hpp"

#include <cmath>
#include <limits>
#include <memory>

#include "cli/plan/asked_search.hpp"
#include "cli/plan/iteration_record.hpp"
#include "cli/plan/iteration_summary.hpp"
#include "cli/common/main_guard.hpp"
#include "cli/common/notes.hpp"
#include "cli/common/output_check.hpp"
#include "cli/common/plan_words.hpp"
#include "planner/core/shards.hpp"
#include "simulator/calibration/prediction.hpp"

namespace dtfm::cli {
namespace {

/// The job of a plan file says the shape of that plan, and its drains: those are the planner's to choose.
Problem free_problem(const PlanOptions& options, Problem problem) {
  if (options.job) return problem;
  problem.job.parallelism.pipeline.reset();
  problem.job.parallelism.data.reset();
  problem.job.parallelism.flush.reset();
  return problem;
}

/// Of a plan that was made elsewhere; where the simulator says nothing, why, and its time is infinite.
Judgement judgement_of(const search::PlanCandidate& plan, const std::vector<JudgedScenario>& scenarios,
                       const PlanOptions& options, const InterruptWatch& watch) {
  Judgement none;
  none.seconds = std::numeric_limits<double>::infinity();
  if (plan.lacking > 0) {
    none.error = "the plan does not fit the memory of its devices: " + lacking_device(plan);
    return none;
  }
  Judgement judgement =
      judged({plan}, scenarios, options.robust.value_or(Robust::mean), options.threads, watch.stop()).front();
  if (watch.interrupted()) return none;  // runs that were cut short say nothing
  if (judgement.error.empty()) return judgement;
  none.error = "the plan could not be simulated: " + judgement.error;
  return none;
}

/// What is minimised, as the judge counts.
double value_of(const search::PlanScore& score, const search::PlanCandidate& candidate, const Judgement& judgement) {
  return score.of(judgement.seconds, score.total_weight(candidate.plan), candidate.egress_usd);
}

/// Nothing where no plan was simulated.
std::optional<io::PlanRecord::Advice> advice_on(const PlanOptions& options, const Problem& problem,
                                            const std::vector<JudgedScenario>& scenarios,
                                            const search::PlanScore& score, double value, InterruptWatch& watch) {
  ProgressPrinter printer(options.quiet, "dtfm-plan");
  const JudgedSearch search =
      asked_search(options, problem, search_options(options, problem, printer, watch), scenarios, watch);
  if (search.judgements.empty()) return std::nullopt;
  const double best = value_of(score, search.best(), search.judgements.front());
  if (!std::isfinite(best)) return std::nullopt;
  return io::PlanRecord::Advice{finalists_of(search).front(),
                            decisions_in_words(problem_of(search.best()).job, search.best().plan),
                            std::isfinite(value) ? std::optional(1 - best / value) : std::nullopt};
}

}  // namespace

int score_by_iteration_time(const PlanOptions& options, const Problem& given,
                            const std::optional<CalibrationSpread>& spread, const Plan& plan,
                            const std::vector<std::string>& notes, const io::ReadLog& read,
                            InterruptWatch& watch) {
  const std::vector<JudgedScenario> scenarios = scenarios_of(options, given.topology);
  check_not_read(read, outputs_of(options));
  const std::vector<std::string> choices = open_notes(given.job);
  Problem problem = given;
  problem.job.automatic = {};
  problem.job.parallelism.tensor = plan.tensor;
  const auto network = std::make_shared<const cost::NetworkCost>(problem.topology, problem.constants);
  const auto job = std::make_shared<const search::DecidedJob>(problem, problem.job, tensor_degrees(plan), network);
  for (const int device : pipeline_major(plan))
    if (const std::string& unknown = job->model.unknown(device); !unknown.empty()) throw Error("", unknown);
  const search::PlanScore score(*search::objective_named(options.objective), problem.topology);
  const search::PlanCandidate candidate = search::priced_plan(job, plan, 0, score);
  io::PlanRecord record = record_of(options, candidate);
  for (const auto& more : {notes, choices, batch_notes(plan, problem.job)}) add_notes(more, record);
  const bool fits = candidate.lacking <= 0;
  io::PlanRecord::Finalist& only = record.finalists.emplace_back(finalist_of(candidate));
  Judgement judgement = judgement_of(candidate, scenarios, options, watch);
  if (!judgement.error.empty()) record.warnings.push_back(judgement.error);
  only.simulated = judgement.simulated;
  add_notes(idle_notes(only), record);
  if (spread && !only.simulated.empty())
    record.interval = sim::time_interval(problem_of(candidate), plan, *spread, nominal_seconds(record));
  watch.keep_result();  // the score is there, whatever becomes of the advice
  if (options.advise && !watch.interrupted())
    record.advice = advice_on(options, free_problem(options, given), scenarios, score,
                              value_of(score, candidate, judgement), watch);
  if (options.advise && !record.advice && watch.interrupted())
    record.warnings.push_back("interrupted before there was a plan to advise");
  put_iteration_plan(options, {problem_of(candidate), plan, record}, watch.stop());
  if (watch.interrupted()) return exit_code::interrupted;
  return fits ? exit_code::done : exit_code::infeasible;
}

}  // namespace dtfm::cli
