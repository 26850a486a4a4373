// The dtfm-plan command: reads the inputs, searches for a plan or scores one, and writes the result.
#include <array>
#include <utility>

#include <fmt/format.h>

#include "cli/common/batch_option.hpp"
#include "cli/common/common_work.hpp"
#include "cli/common/interrupt.hpp"
#include "cli/common/main_guard.hpp"
#include "cli/common/output_check.hpp"
#include "cli/common/print_error.hpp"
#include "cli/common/print_result.hpp"
#include "cli/common/progress.hpp"
#include "cli/common/target_formatting.hpp"
#include "cli/common/text_formatting.hpp"
#include "cli/plan/comm_cost_summary.hpp"
#include "cli/plan/plan_by_iteration_time.hpp"
#include "cli/plan/plan_options.hpp"
#include "cli/plan/plan_record.hpp"
#include "cli/plan/put_plan.hpp"
#include "cli/plan/score_by_iteration_time.hpp"
#include "cli/plan/search_from_options.hpp"
#include "cli/plan/search_termination.hpp"
#include "cli/report/report_html.hpp"
#include "planner/api/comm_cost.hpp"
#include "planner/io/pareto_json.hpp"
#include "planner/io/plan_notes.hpp"
#include "core/base/index.hpp"
#include "core/plan/target_settings.hpp"
#include "core/io/importers/foreign_plan.hpp"
#include "core/io/readers/calibration_reader.hpp"
#include "core/io/readers/job_reader.hpp"
#include "core/io/readers/plan_reader.hpp"
#include "core/io/readers/roofline_reader.hpp"
#include "core/io/readers/topology_reader.hpp"
#include "core/io/text/atomic_file.hpp"
#include "planner/search/comm_cost/strategy.hpp"

namespace dtfm::cli {
namespace {

/// Returns the job of --job, else that of the plan to score, else the default one, with the changes that
/// options other than --target make to it.
Job effective_job(const PlanOptions& options, const std::optional<io::PlanSource>& given_plan) {
  std::optional<Job> given;
  if (options.job)
    given = io::read_job(*options.job);
  else if (given_plan)
    given = io::plan_job(*given_plan);
  Job job = given ? *given : io::default_job();
  set_global_batch(options.batch, job);
  if (options.tensor || options.tensor_auto) {
    job.parallelism.tensor = options.tensor.value_or(1);
    job.automatic[Setting::tensor] = options.tensor_auto;
  }
  job.parallelism.uniform_pipelines = job.parallelism.uniform_pipelines || options.uniform_pipelines;
  return job;
}

std::vector<std::string> shape_warnings(const Job& job, const Placement& placement) {
  std::vector<std::string> warnings;
  if (placement.stages() > layer_count(job.model))
    warnings.push_back(fmt::format("{} stages for {} layers: some stages compute nothing", placement.stages(),
                                   layer_count(job.model)));
  const int micro_batches = micro_batch_count(job);
  if (placement.replicas() > micro_batches)
    warnings.push_back(fmt::format("{} pipelines for {} micro-batches: some pipelines compute nothing",
                                   placement.replicas(), micro_batches));
  return warnings;
}

/// Checks the output files before the search begins, so that no work is lost.
void check_output(const PlanOptions& options) {
  if (options.pareto && io::is_stdout(*options.pareto))
    throw Error("--pareto", "requires a file; stdout has the plan or its summary");
  check_outputs(std::array{options.topology, options.job.value_or(""), options.score.value_or(""),
                           options.ranks.value_or(""), options.calibration.value_or(""),
                           options.warm_start.value_or("")},
                output_files(options));
  if (options.output) check_kind(*options.output, begins_as_json, "plan");
  if (options.pareto) check_kind(*options.pareto, io::is_pareto_prefix, "file of --pareto");
}

void write_output(const PlanOptions& options, const CommCostSummary& summary, const InterruptWatch& watch) {
  write_plan_output(
      options,
      {summary.topology, summary.problem.job,
       io::calibration_for({}, summary.problem.job, summary.topology).constants, io::built_in_roofline()},
      summary.plan, summary.record, format_summary(summary), watch.stop());
}

io::PlanRecord make_plan_record(const search::SearchResult& result, const PlanOptions& options) {
  io::PlanRecord record;
  record.objective = options.objective;
  record.comm_cost = result.cost;
  record.version = DTFM_VERSION;
  record.lower_bound =
      api::PlanBound{result.lower_bound.value, result.cost.total(), result.lower_bound.method};
  record.search = io::PlanRecord::Search{options.strategy, options.seed, result.evaluations, result.stopped,
                                         result.convergence};
  record.warnings = stop_notes(result.stopped, "plan");
  return record;
}

/// Returns where the shape is set: an option, the job or, if neither sets it, the option that could.
std::string source_of_shape(const PlanOptions& options, const Job& job) {
  if (options.pipeline) return "--pipeline";
  if (options.data) return "--data";
  const bool is_set = job.parallelism.pipeline || job.parallelism.data || job.comm_cost_stages;
  return is_set ? "job " + job.name : "--pipeline";
}

api::CommCostPlanResult plan_with_progress(const PlanOptions& options, const Topology& topology,
                                           const Job& job, const InterruptWatch& watch) {
  ProgressPrinter printer(options.quiet, "dtfm-plan");
  api::CommCostPlanRequest request{topology, job, {options.pipeline, options.data}, options.strategy, {}};
  if (options.data_auto) request.job.parallelism.data.reset();
  request.options = common_search_options(options, printer, watch);
  try {
    return api::plan_comm_cost(request);
  } catch (const search::NoSuchShape& error) {
    throw Error(source_of_shape(options, request.job), error.what());
  }
}

int plan(const PlanOptions& options, const Topology& topology, const Job& job, InterruptWatch& watch) {
  watch.keep_result();
  const auto [problem, found, plan] = plan_with_progress(options, topology, job, watch);
  if (!continues_alone(options.work.ranks, options.quiet) &&
      !replaces_root(options.work.ranks, options.output))
    return exit_code::done;
  io::PlanRecord record = make_plan_record(found, options);
  for (const auto& more :
       {io::undecided_notes(job, job.execution, job.automatic), shape_warnings(job, found.placement)})
    add_notes(more, record);
  write_output(options, {topology, problem, found.placement, plan, record, {}}, watch);
  // An interrupt is reported even if the search ended by itself at the same moment.
  return watch.interrupted() ? exit_code::interrupted : exit_code::done;
}

/// Throws Error if --pipeline, --data, --tensor or --batch contradicts the plan to score.
void check_shape(const PlanOptions& options, const Plan& plan) {
  const int stages = depth(plan), pipelines = static_cast<int>(plan.pipelines.size());
  if (options.pipeline.value_or(stages) != stages)
    throw Error("--pipeline",
                fmt::format("{}, but the plan has {}", *options.pipeline, format_count(stages, "stage")));
  if (options.data.value_or(pipelines) != pipelines)
    throw Error("--data",
                fmt::format("{}, but the plan has {}", *options.data, format_count(pipelines, "pipeline")));
  if (options.tensor.value_or(plan.tensor) != plan.tensor)
    throw Error("--tensor", fmt::format("{}, but the plan has {} per stage", *options.tensor,
                                        format_count(plan.tensor, "device")));
  check_batch_of_plan(options.batch, plan, *options.score);
}

std::vector<std::string> score_warnings(const Plan& plan, const Job& job) {
  std::vector<std::string> warnings = io::batch_notes(plan, job);
  const auto& stages = plan.pipelines.front().stages;
  const int count = static_cast<int>(stages.size());
  bool is_even = true;
  for (int stage = 0; stage < count; ++stage)
    is_even = is_even && stages[at(stage)].layers == even_split(layer_count(job.model), count, stage);
  if (!is_even && !job.comm_cost)
    warnings.push_back(
        "the bytes sent are estimated for an even split of the layers, which the plan's is not");
  return warnings;
}

int score(const PlanOptions& options, const Topology& topology, const Job& given_job,
          const io::PlanSource& given_plan, const InterruptWatch& watch) {
  const auto [given, notes, undecided, checkpoint_period_s] =
      io::read_any_plan(given_plan, topology, given_job, options.job.has_value());
  Job job = given_job;
  job.execution = given.execution;
  const Placement placement = io::balanced_placement(given, topology, *options.score);
  check_shape(options, given);
  const api::CommCostScoreResult scored = api::score_comm_cost({topology, job, placement});
  io::PlanRecord record;
  record.objective = options.objective;
  record.comm_cost = scored.cost;
  if (checkpoint_period_s) record.checkpoint_period = {*checkpoint_period_s, api::PeriodSource::plan_file};
  record.warnings = notes;
  add_notes(io::undecided_notes(job, given.execution, undecided), record);
  add_notes(score_warnings(given, job), record);
  record.version = DTFM_VERSION;
  write_output(options, {topology, scored.problem, placement, given, record, scored.best_deployment}, watch);
  return exit_code::done;
}

int list_strategies() {
  std::vector<std::vector<std::string>> rows;
  for (const search::Strategy& strategy : search::strategies()) {
    const std::string mark = strategy.name == search::default_strategy ? " (default)" : "";
    rows.push_back({std::string(strategy.name), std::string(strategy.summary) + mark});
  }
  print_result(table(rows, false));
  return exit_code::done;
}

/// Returns comm-cost for --prove, unless the user gave an objective. Throws Error for an objective that does
/// not support --prove or the strategy. Only comm-cost has strategies other than the default.
Objective effective_objective(const PlanOptions& options) {
  const bool has_strategy = search::strategy_named(options.strategy).name != search::default_strategy;
  if (has_strategy && options.objective != Objective::comm_cost)
    throw Error("", fmt::format("--strategy {} requires --objective comm-cost", options.strategy));
  if (options.prove && !options.objective_given) return Objective::comm_cost;
  if (options.prove && options.objective != Objective::comm_cost &&
      options.objective != Objective::iteration_time)
    throw Error("--prove", "requires --objective comm-cost or iteration-time");
  return options.objective;
}

/// Says that --prove has decided the objective, which the user did not name.
void announce_objective(const PlanOptions& options) {
  if (options.objective_given || options.quiet || !is_root(options.work.ranks)) return;
  print_error(fmt::format("dtfm-plan: --prove implies --objective {}\n", name_of(options.objective)));
}

int plan_or_score_by_comm_cost(const PlanOptions& options, const Topology& topology, const Job& job,
                               const std::optional<io::PlanSource>& given_plan, InterruptWatch& watch) {
  api::check_comm_cost(job);
  const std::pair<const char*, bool> unsupported[] = {
      {"--scenario", !options.scenarios.empty()},       {"--finalists", options.finalists.has_value()},
      {"--robust", options.robust.has_value()},         {"--near-equal", options.near_equal.has_value()},
      {"--pareto", options.pareto.has_value()},         {"--advise", options.advise},
      {"--target", options.target.has_value()},         {"--calibration", options.calibration.has_value()},
      {"--warm-start", options.warm_start.has_value()}, {"--explain", options.explain}};
  for (const auto& [option, is_given] : unsupported)
    if (is_given) throw Error(option, "cannot be combined with --objective comm-cost");
  announce_objective(options);
  return given_plan ? score(options, topology, job, *given_plan, watch) : plan(options, topology, job, watch);
}

}  // namespace

int run_plan_command(const PlanOptions& given) {
  if (given.list_strategies) return list_strategies();
  if (given.list_targets) {
    print_result(format_target_table());
    return exit_code::done;
  }
  PlanOptions options = given;
  options.objective = effective_objective(given);
  check_report(options.report);
  InterruptWatch watch("a plan");
  const io::ReadLog read;
  const Shared<Topology> topology = io::read_topology(options.topology);
  std::optional<io::PlanSource> given_plan;
  if (options.score) given_plan = io::read_plan_source(*options.score, options.ranks);
  const Job job = effective_job(options, given_plan);
  if (is_root(options.work.ranks)) {
    check_output(options);
    check_not_read(read, output_files(options));
  }
  if (given_plan && !continues_alone(options.work.ranks, true))
    return exit_code::done;  // scoring is not divided
  if (options.objective == Objective::comm_cost) check_same_input(options.work, options.common, read);
  if (options.objective == Objective::comm_cost)
    return plan_or_score_by_comm_cost(options, topology, job, given_plan, watch);
  const FittedCalibration calibration = io::calibration_for(options.calibration, job, *topology);
  Problem problem{topology, job, calibration.constants, io::built_in_roofline()};
  std::vector<TargetChange> changes;
  if (!given_plan && options.target) changes = restrict_to_target(problem.job, *options.target);
  if (!given_plan) return plan_by_iteration_time(options, problem, calibration.spread, changes, read, watch);
  io::PlanAndNotes given_one = io::read_any_plan(*given_plan, topology, job, options.job.has_value());
  check_shape(options, given_one.plan);
  if (options.target) {
    TargetedPlan run = run_on_target(given_one.plan, job, *options.target);
    given_one.plan = std::move(run.plan);
    problem.job = std::move(run.job);
    changes = std::move(run.changes);
  }
  for (const std::string& note : io::undecided_notes(job, given_one.plan.execution, given_one.undecided))
    given_one.notes.push_back(note);
  return score_by_iteration_time(options, problem, calibration.spread, given_one, changes, read, watch);
}

}  // namespace dtfm::cli
