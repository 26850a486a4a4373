// The dtfm-sim command for plans and schemes: reads the inputs, simulates and writes the result.
#include <array>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/common/common_work.hpp"
#include "cli/common/interrupt.hpp"
#include "cli/common/main_guard.hpp"
#include "cli/common/output_check.hpp"
#include "cli/common/print_error.hpp"
#include "cli/common/print_result.hpp"
#include "cli/common/progress.hpp"
#include "cli/common/write_output.hpp"
#include "cli/common/report_file.hpp"
#include "planner/report/report.hpp"
#include "cli/simulate/run_stats.hpp"
#include "cli/simulate/sim_summary.hpp"
#include "cli/simulate/simulate_options.hpp"
#include "planner/api/simulate.hpp"
#include "planner/io/plan_notes.hpp"
#include "planner/io/simulation_document.hpp"
#include "core/io/text/atomic_file.hpp"
#include "core/io/text/control_characters.hpp"
#include "core/io/text/json_format.hpp"
#include "simulator/io/chrome_trace.hpp"
#include "simulator/io/task_csv.hpp"
#include "simulator/report/stage_memory.hpp"
#include "simulator/run/failure_policy.hpp"

namespace dtfm::cli {
namespace {

std::array<std::string, 4> output_files(const SimulateOptions& options) {
  return {options.output.value_or(""), options.trace.value_or(""), options.tasks.value_or(""),
          options.report.value_or("")};
}

void check_files(const SimulateOptions& options) {
  check_outputs(std::array{file_of(options.topology), file_of(options.plan), file_of(options.job),
                           file_of(options.scenario), file_of(options.ranks), file_of(options.calibration),
                           file_of(options.measured)},
                output_files(options));
}

/// Outputs that are written during the run. They appear under their names only if they are complete.
class StreamedOutputs {
 public:
  StreamedOutputs(const SimulateOptions& options, const api::SimulateResult& decided)
      : hold_(must_be_atomic(std::array{options.trace.value_or(""), options.tasks.value_or("")})) {
    if (options.trace) {
      trace_file_.emplace(*options.trace);
      memory_.emplace(decided.problem, decided.plan, sim::traits(decided.scenario.on_failure).keeps_copies);
      trace_.emplace(decided.problem.topology, memory_->memory_of(),
                     [this](std::string_view text) { trace_file_->write(text); });
    }
    if (options.tasks) {
      task_file_.emplace(*options.tasks);
      tasks_.emplace([this](std::string_view text) { task_file_->write(text); });
    }
  }
  StreamedOutputs(const StreamedOutputs&) = delete;
  StreamedOutputs& operator=(const StreamedOutputs&) = delete;

  std::vector<sim::RunObserver*> observers() {
    std::vector<sim::RunObserver*> observers;
    if (memory_) observers.push_back(&*memory_);
    if (trace_) observers.push_back(&*trace_);
    if (tasks_) observers.push_back(&*tasks_);
    return observers;
  }

  void commit() {
    if (trace_) trace_->finish();
    if (trace_file_) trace_file_->commit();
    if (task_file_) task_file_->commit();
  }

 private:
  const InterruptHold hold_;  // a second Ctrl-C must not leave a temporary file behind
  std::optional<io::AtomicFile> trace_file_, task_file_;
  std::optional<sim::CurrentStageMemory> memory_;
  std::optional<io::ChromeTrace> trace_;
  std::optional<io::TaskCsv> tasks_;
};

api::SimulateResult simulate(const SimulateOptions& options, api::SimulateRequest request,
                             const InterruptWatch& watch) {
  ProgressPrinter printer(options.quiet, "dtfm-sim");
  request.work.stop = watch.stop();
  request.work.on_progress = [&](const Progress& progress) { printer.show(progress); };
  std::optional<StreamedOutputs> outputs;
  request.observe = [&](const api::SimulateResult& decided) {
    return outputs.emplace(options, decided).observers();
  };
  api::SimulateResult result = api::simulate(request);
  if (outputs) outputs->commit();
  return result;
}

void write_output(const SimulateOptions& options, const api::SimulateRequest& request,
                  const api::SimulateResult& result) {
  if (result.comparison && result.comparison->kinds.empty())
    throw Error(options.measured->name,
                "no activity of the measured iteration is in the simulated one: give the timeline of a "
                "training with this plan");
  const nlohmann::ordered_json document = io::simulation_document(request, result);
  const std::string json = io::format_json(document);
  if (options.output) write_output_file(*options.output, json);
  if (options.report)  // after the result, which must exist even if the report fails
    write_output_file(*options.report,
                      report::simulation_report("dtfm-sim " DTFM_VERSION, request, result, document));
  for (const auto& output : {options.output, options.trace, options.tasks})
    if (output && io::is_stdout(*output)) return;
  print_result(options.format == OutputFormat::json ? json : format_summary(request, result), options.color);
}

}  // namespace

int run_simulate_command(const SimulateOptions& options) {
  InterruptWatch watch("a result");
  const double begin = cpu_seconds();
  check_report(options.report);
  const bool is_root_rank = is_root(options.work.ranks);
  if (is_root_rank) check_files(options);
  const io::ReadLog log;
  const api::SimulateRequest request = read_simulate_request(options);
  if (is_root_rank) check_not_read(log, output_files(options));
  check_same_input(options.work, options.common, log);
  const double read = cpu_seconds();
  watch.keep_result();
  const api::SimulateResult result = simulate(options, request, watch);
  const double ran = cpu_seconds();
  if (!result.has_layout()) {
    const std::string why = io::format_no_layout(*result.chosen, request.problem);
    print_error(io::escape_control_characters(
        fmt::format("dtfm-sim: no layout of {}: {}\n", *options.scheme, why), "\n"));
    return watch.interrupted() ? exit_code::interrupted : exit_code::infeasible;
  }
  if (!continues_alone(options.work.ranks, options.quiet || !options.samples)) return exit_code::done;
  write_output(options, request, result);
  if (options.stats)
    print_error(stats_json({result.tasks, result.flows, result.events, read - begin, ran - read}));
  if (watch.interrupted()) return exit_code::interrupted;
  return result.is_feasible() ? exit_code::done : exit_code::infeasible;
}

}  // namespace dtfm::cli
