// The dtfm-plan command: reads the request, searches for a plan or scores one, and writes the answer.
#include <array>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/common/common_work.hpp"
#include "cli/common/interrupt.hpp"
#include "cli/common/main_guard.hpp"
#include "cli/common/output_check.hpp"
#include "cli/common/print_error.hpp"
#include "cli/common/print_result.hpp"
#include "cli/common/progress.hpp"
#include "cli/common/target_formatting.hpp"
#include "cli/common/text_formatting.hpp"
#include "cli/common/write_output.hpp"
#include "cli/plan/summary.hpp"
#include "cli/plan/plan_options.hpp"
#include "cli/common/report_file.hpp"
#include "planner/report/report.hpp"
#include "core/io/text/atomic_file.hpp"
#include "core/io/text/json_format.hpp"
#include "core/io/writers/plan_json.hpp"
#include "planner/api/plan.hpp"
#include "planner/io/pareto_json.hpp"
#include "planner/io/plan_document.hpp"
#include "planner/request/read_plan_request.hpp"

namespace dtfm::cli {
namespace {

int list_strategies() {
  std::vector<std::vector<std::string>> rows;
  for (const auto& strategy : api::strategies()) {
    const std::string mark = strategy.name == api::default_strategy ? " (default)" : "";
    rows.push_back({std::string(strategy.name), std::string(strategy.summary) + mark});
  }
  print_result(table(rows, false));
  return exit_code::done;
}

/// Says that --prove has decided the objective, which the user did not name.
void announce_objective(const PlanOptions& options) {
  if (options.objective_given || options.quiet || !is_root(options.work.ranks)) return;
  print_error(fmt::format("dtfm-plan: --prove implies --objective {}\n", name_of(options.objective)));
}

/// Checks the output files before the search begins, so that no work is lost.
void check_output(const PlanOptions& options) {
  if (options.pareto && io::is_stdout(*options.pareto))
    throw Error("--pareto", "requires a file; stdout has the plan or its summary");
  check_outputs(std::array{file_of(options.topology), file_of(options.job), file_of(options.model),
                           file_of(options.score), file_of(options.ranks), file_of(options.calibration),
                           file_of(options.warm_start)},
                output_files(options));
  if (options.output) check_kind(*options.output, begins_as_json, "plan");
  if (options.saved_topology)
    check_kind(
        *options.saved_topology, [](const std::string& begin) { return begin.starts_with("#"); }, "topology");
  if (options.saved_job) check_kind(*options.saved_job, begins_as_json, "job");
  if (options.pareto) check_kind(*options.pareto, io::is_pareto_prefix, "file of --pareto");
}

/// Writes what the options would have been as files.
void write_inputs(const PlanOptions& options, const request::PlanTask& task) {
  if (!is_root(options.work.ranks)) return;
  if (options.saved_topology) write_output_file(*options.saved_topology, task.topology_text);
  if (options.saved_job)
    write_output_file(*options.saved_job, io::format_json(io::job_json(task.request.problem.job)));
}

api::PlanAnswer answer_with_progress(const PlanOptions& options, request::PlanTask task,
                                     const InterruptWatch& watch) {
  ProgressPrinter printer(options.quiet, "dtfm-plan");
  auto& common = task.request.options.common;
  common.begin = options.work.ranks ? options.work.ranks->now() : options.begin;
  common.stop = watch.stop();
  common.on_progress = [&printer](const Progress& progress) { printer.show(progress); };
  return run(task, options);
}

/// Says why the command took longer than the time limit, beyond what the last steps are allowed.
void note_overrun(const PlanOptions& options) {
  constexpr double tolerance_s = 0.5;
  if (!options.work.time_limit || options.quiet) return;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - options.begin;
  if (elapsed.count() > *options.work.time_limit + tolerance_s)
    print_error(fmt::format(
        "dtfm-plan: reading the input and finding a first plan took longer than --time-limit {:g}; "
        "the plan was ready after {:.1f} s\n",
        *options.work.time_limit, elapsed.count()));
}

/// Writes the files first, because a search may have been long and the report may fail or be killed; then the
/// summary, or the plan, to stdout.
void write_answer(const PlanOptions& options, const api::PlanAnswer& answer,
                  const std::vector<TargetChange>& changes, const StopFunction& stop) {
  std::string text =
      answer.comm_cost ? format_comm_cost_summary(answer) : format_iteration_summary(answer, changes);
  if (answer.front) {
    write_output_file(*options.pareto, io::pareto_json(answer));
    text = join_blocks({text, format_pareto_front(*answer.front, answer.plan, *options.pareto)});
  }
  write_output(
      options.output, options.format, io::format_json(io::plan_document(answer)), text, options.color, [&] {
        if (options.report)
          write_output_file(*options.report, report::plan_report("dtfm-plan " DTFM_VERSION, answer, stop));
      });
}

}  // namespace

int run_plan_command(const PlanOptions& options) {
  if (options.list_strategies) return list_strategies();
  if (options.list_targets) {
    print_result(format_target_table());
    return exit_code::done;
  }
  if (options.describes_model) return describe_model(options);
  check_report(options.report);
  InterruptWatch watch("a plan");
  if (is_root(options.work.ranks)) check_output(options);
  const io::ReadLog read;
  const request::PlanTask task = read_plan_task(options);
  if (is_root(options.work.ranks)) check_not_read(read, output_files(options));
  if (task.given && !continues_alone(options.work.ranks, true))
    return exit_code::done;  // scoring is not divided
  if (options.objective == Objective::comm_cost) announce_objective(options);
  write_inputs(options, task);
  check_same_input(options.work, options.common, read);
  if (!task.given || options.advise) watch.keep_result();
  const api::PlanAnswer answer = answer_with_progress(options, task, watch);
  if (!task.given && !continues_alone(options.work.ranks, options.quiet) &&
      !replaces_root(options.work.ranks, options.output))
    return exit_code::done;
  watch.keep_result();  // a score is complete now
  if (answer.search && !answer.comm_cost && !watch.interrupted()) note_overrun(options);
  write_answer(options, answer, task.target_changes, watch.stop());
  if (watch.interrupted()) return exit_code::interrupted;
  return answer.is_feasible() ? exit_code::done : exit_code::infeasible;
}

}  // namespace dtfm::cli
