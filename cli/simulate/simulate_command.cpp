// The dtfm-sim command for plans and schemes: reads the inputs, simulates and writes the result.
#include <array>
#include <memory>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/common/batch_option.hpp"
#include "cli/common/common_work.hpp"
#include "cli/common/interrupt.hpp"
#include "cli/common/main_guard.hpp"
#include "cli/common/output_check.hpp"
#include "cli/common/plan_formatting.hpp"
#include "planner/io/plan_notes.hpp"
#include "cli/common/print_error.hpp"
#include "cli/common/print_result.hpp"
#include "cli/common/progress.hpp"
#include "cli/common/text_formatting.hpp"
#include "cli/common/write_output.hpp"
#include "cli/report/report_html.hpp"
#include "cli/report/timeline_comparison.hpp"
#include "cli/report/write_report.hpp"
#include "cli/simulate/run_stats.hpp"
#include "cli/simulate/sim_summary.hpp"
#include "cli/simulate/simulate_options.hpp"
#include "cli/simulate/swarm_summary.hpp"
#include "planner/api/schemes/scheme.hpp"
#include "planner/api/simulate.hpp"
#include "core/base/index.hpp"
#include "core/plan/layer_times.hpp"
#include "core/plan/shards.hpp"
#include "core/io/importers/foreign_plan.hpp"
#include "core/io/readers/calibration_reader.hpp"
#include "core/io/readers/job_reader.hpp"
#include "core/io/readers/roofline_reader.hpp"
#include "core/io/readers/topology_reader.hpp"
#include "core/io/text/atomic_file.hpp"
#include "core/io/text/control_characters.hpp"
#include "core/io/text/json_format.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/text_file.hpp"
#include "simulator/io/chrome_trace.hpp"
#include "simulator/io/measured_iteration.hpp"
#include "simulator/io/report_json.hpp"
#include "simulator/io/scenario_reader.hpp"
#include "simulator/report/run_totals.hpp"
#include "simulator/report/stage_memory.hpp"
#include "simulator/report/timeline.hpp"
#include "simulator/run/checkpoint_period.hpp"
#include "simulator/run/failure_policy.hpp"
#include "simulator/simulate.hpp"

namespace dtfm::cli {
namespace {

constexpr std::size_t max_timeline_bytes = std::size_t{1} << 30;

struct Input {
  Problem problem;
  Plan plan;
  sim::Scenario scenario;
  std::vector<std::string> notes;                     // about the plan
  int sync_every = 1;                                 // SimOptions::sync_every
  std::optional<search::Routing> routing = {};        // for schemes that route each micro-batch
  std::optional<sim::SwarmSetup> swarm = {};          // if set, it is simulated instead of the plan
  std::optional<CalibrationUncertainty> spread = {};  // uncertainty of the constants, if known
  std::optional<double> checkpoint_period_s = {};     // of the plan, for a scenario that leaves it open
  std::optional<sim::Timeline> measured = {};              // of a training
};

/// Returns the job in the plan file. CSV and Megatron-LM plans have none and get the default job.
Job job_of_plan(const io::PlanSource& source) {
  auto job = io::plan_job(source);
  if (!job && source.format != io::PlanFormat::json) return io::default_job();
  if (!job) throw Error(source.file.path, "contains no job; give one with --job");
  return std::move(*job);
}

void append_notes(const std::vector<std::string>& more, std::vector<std::string>& notes) {
  notes.insert(notes.end(), more.begin(), more.end());
}

void read_plan_input(const SimulateOptions& options, Input& input) {
  const io::PlanSource source = io::read_plan_source(options.plan, options.ranks);
  input.problem.job = options.job ? io::read_job(*options.job) : job_of_plan(source);
  Job& job = input.problem.job;
  set_global_batch(options.batch, job);
  const auto [plan, notes, undecided, checkpoint_period_s] =
      io::read_any_plan(source, input.problem.topology, job, options.job.has_value());
  check_batch_of_plan(options.batch, plan, options.plan);
  input.plan = plan;
  input.notes = notes;
  input.checkpoint_period_s = checkpoint_period_s;
  job.execution = plan.execution;
  append_notes(io::undecided_notes(job, plan.execution, undecided), input.notes);
}

/// Sets the fastest layout of the scheme. Throws NoLayout if none fits in memory.
void choose_scheme_layout(const SimulateOptions& options, Input& input) {
  const api::Scheme& scheme = io::find_row(api::schemes(), *options.scheme, "--scheme", "unknown scheme");
  const api::SchemeOptions scheme_options{options.seed, options.sync_every, options.skip, options.verify,
                                          options.faulty_share};
  const api::ChosenLayout chosen = api::choose_layout(input.problem, scheme, scheme_options, options.work);
  if (!chosen.is_any() && chosen.is_input_error)
    throw Error("",
                fmt::format("no layout of {} can be simulated: {}", scheme.name, chosen.no_layout_reason));
  if (!chosen.is_any())
    throw api::NoLayout(fmt::format("no layout of {}: {}", scheme.name, chosen.no_layout_reason));
  if (chosen.layout) {
    input.problem.job = chosen.layout->job;
    input.plan = chosen.layout->plan;
    input.sync_every = chosen.layout->sync_every;
    input.routing = chosen.layout->routing;
  }
  input.swarm = chosen.swarm;
  input.notes = {fmt::format("scheme {}: {}, the fastest of {} layouts that fit, of {}", scheme.name,
                             api::format_shape(input.problem, chosen), chosen.fitting, chosen.tried),
                 fmt::format("scheme {} assumes: {}", scheme.name, api::assumptions(scheme, scheme_options))};
}

/// Replaces an automatic period of the scenario's checkpoint by that of the plan or, without one, by Young
/// and Daly's. A swarm writes no checkpoints.
void decide_checkpoint_period(Input& input) {
  if (!sim::has_automatic_period(input.scenario) || input.swarm) return;
  const api::CheckpointPeriod period =
      input.checkpoint_period_s
          ? api::CheckpointPeriod{*input.checkpoint_period_s, api::PeriodSource::plan_file}
          : api::CheckpointPeriod{sim::young_daly_period_s(input.problem, input.plan, input.scenario)};
  input.scenario = sim::with_checkpoint_period(std::move(input.scenario), period.seconds);
  input.notes.push_back(io::format_checkpoint_period(period));
}

std::array<std::string, 4> output_files(const SimulateOptions& options) {
  return {options.output.value_or(""), options.trace.value_or(""), options.tasks.value_or(""),
          options.report.value_or("")};
}

void check_files(const SimulateOptions& options) {
  check_outputs(
      std::array{options.topology, options.plan, options.job.value_or(""), options.scenario.value_or(""),
                 options.ranks.value_or(""), options.calibration.value_or(""), options.measured.value_or("")},
      output_files(options));
}

/// Reads all files before it evaluates the layouts of a scheme, so that an output which would overwrite an
/// input is rejected early.
Input read_input(const SimulateOptions& options) {
  const io::ReadLog read;
  Input input;
  input.problem.topology = io::read_topology(options.topology);
  input.problem.roofline = io::built_in_roofline();
  if (options.scheme) {
    input.problem.job = options.job ? io::read_job(*options.job) : io::default_job();
    set_global_batch(options.batch, input.problem.job);
  } else {
    read_plan_input(options, input);
  }
  const FittedCalibration calibration =
      io::calibration_for(options.calibration, input.problem.job, *input.problem.topology);
  input.problem.constants = calibration.constants;
  input.spread = calibration.spread;
  if (options.scenario) input.scenario = io::read_scenario(*options.scenario, input.problem.topology);
  if (options.measured)
    input.measured = io::timeline_of(io::parse_measured_iteration(
        io::read_file(*options.measured, max_timeline_bytes), *options.measured, input.problem.topology));
  if (is_root(options.work.ranks)) check_not_read(read, output_files(options));
  check_same_input(options.work, options.common, read);
  if (options.scheme) {
    choose_scheme_layout(options, input);
    append_notes(
        io::undecided_notes(input.problem.job, input.problem.job.execution, input.problem.job.automatic),
        input.notes);
  }
  decide_checkpoint_period(input);
  return input;
}

/// Outputs that are written during the run. They appear under their names only if they are complete.
class StreamedOutputs {
 public:
  StreamedOutputs(const SimulateOptions& options, const Input& input) {
    if (options.trace) {
      trace_file_.emplace(*options.trace);
      memory_.emplace(input.problem, input.plan, sim::traits(input.scenario.on_failure).keeps_copies);
      trace_.emplace(input.problem.topology, memory_->memory_of(),
                     [this](std::string_view text) { trace_file_->write(text); });
    }
    if (options.report || input.measured) timeline_.emplace(input.problem.topology->size());
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
    if (timeline_) observers.push_back(&*timeline_);
    return observers;
  }

  std::optional<sim::Timeline> timeline() const {
    return timeline_ ? std::optional(timeline_->timeline()) : std::nullopt;
  }

  void commit() {
    if (trace_) trace_->finish();
    if (trace_file_) trace_file_->commit();
    if (task_file_) task_file_->commit();
  }

 private:
  std::optional<io::AtomicFile> trace_file_, task_file_;
  std::optional<sim::CurrentStageMemory> memory_;
  std::optional<io::ChromeTrace> trace_;
  std::optional<io::TaskCsv> tasks_;
  std::optional<sim::TimelineRecorder> timeline_;
};

/// The result of one run or, with --samples, the report of the first run and a summary of all.
struct Outcome {
  sim::SimReport report;
  std::optional<sim::SampleSummary> samples;
  std::optional<sim::FairnessComparison> fairness;
  RunStats stats;
  std::optional<sim::Timeline> timeline = {};  // for --report
  std::optional<io::SwarmRecord> swarm = {};
  std::optional<PredictionInterval> interval = {};
};

api::SimulateRequest make_request(const SimulateOptions& options, const Input& input) {
  api::SimulateRequest request;
  request.problem = input.problem;
  request.plan = input.plan;
  request.scenario = input.scenario;
  request.iterations = options.iterations;
  request.seed = options.seed;
  request.samples = options.samples;
  request.work = options.work;
  request.sync_every = input.sync_every;
  request.routing = input.routing;
  request.swarm = input.swarm;
  request.spread = input.spread;
  request.compares_fairness = true;
  return request;
}

Outcome make_outcome(const api::SimulateRequest& request, api::SimulateResult result) {
  Outcome outcome{std::move(result.report), {}, {}, {result.tasks, result.flows, result.events}};
  outcome.interval = result.interval;
  outcome.fairness = result.fairness;
  if (result.samples) {
    const auto& [requested, finished, summary] = *result.samples;
    outcome.samples = summary;
    if (is_stopped(request.work))
      outcome.report.stopped = fmt::format("interrupted after {} of {} runs", finished, requested);
  }
  if (result.swarm)
    outcome.swarm = {std::move(*result.swarm), sim::usd_per_million_tokens(request.problem, outcome.report,
                                                                           outcome.report.tokens_per_s)};
  return outcome;
}

Outcome run_simulation(const SimulateOptions& options, const Input& input, const InterruptWatch& watch) {
  ProgressPrinter printer(options.quiet, "dtfm-sim");
  const char* noun = input.swarm ? "step" : "iteration";
  api::SimulateRequest request = make_request(options, input);
  request.work.stop = watch.stop();
  request.work.on_progress = [&](const Progress& progress) {
    if (printer.is_due())
      printer.show(progress.share,
                   fmt::format("{} {}, {:.6g} s simulated", noun, progress.iteration, progress.simulated_s));
  };
  if (options.samples || input.swarm) return make_outcome(request, api::simulate(request));
  // A second Ctrl-C must not leave a temporary file behind.
  const InterruptHold hold(
      must_be_atomic(std::array{options.trace.value_or(""), options.tasks.value_or("")}));
  StreamedOutputs outputs(options, input);
  request.observers = outputs.observers();
  api::SimulateResult result = api::simulate(request);
  outputs.commit();
  Outcome outcome = make_outcome(request, std::move(result));
  outcome.timeline = outputs.timeline();
  return outcome;
}

/// Returns why no iteration was completed; empty if one was.
std::vector<std::string> no_progress_notes(const sim::SimReport& report, const sim::Scenario& scenario) {
  if (!report.iterations.empty()) return {};
  if (report.deadlocked) return {"no iteration was completed, and none can be"};  // `stopped` says why
  if (!report.stopped.empty()) return {"no iteration was completed"};
  return {fmt::format("no iteration was completed: the horizon, {:.6g} s, came before the end of the first",
                      scenario.horizon_s.value_or(0))};
}

std::vector<std::string> notes_of(const SimulateOptions& options, const Input& input,
                                  const Outcome& outcome) {
  std::vector<std::string> notes = no_progress_notes(outcome.report, input.scenario);
  std::vector<int> devices(at(input.problem.topology->size()));
  std::iota(devices.begin(), devices.end(), 0);  // a swarm uses all devices
  if (!input.swarm) devices = pipeline_major(input.plan);
  for (const auto& more :
       {input.notes, input.swarm ? std::vector<std::string>() : io::batch_notes(input.plan, input.problem.job),
        LayerTimes(input.problem, input.plan.execution,
                   input.swarm ? std::vector{1} : tensor_degrees(input.plan))
            .notes(devices)})
    notes.insert(notes.end(), more.begin(), more.end());
  if (options.samples && !sim::is_random(input.scenario))
    notes.push_back(fmt::format(
        "nothing in the scenario is random (there is no jitter): all samples are equal, and 1 of {} was run",
        *options.samples));
  return notes;
}

std::string format_run_summary(const Input& input, const Outcome& outcome, const io::SimRecord& record,
                               const std::optional<sim::TimelineComparison>& comparison) {
  if (input.swarm) return format_swarm_summary(input.problem, outcome.report, record);
  const std::string summary = format_summary({input.problem.topology, input.plan, outcome.report, record});
  if (!comparison) return summary;
  return join_blocks({summary, format_comparison(input.problem.topology, *input.measured, *comparison)});
}

void write_output(const SimulateOptions& options, const Input& input, const Outcome& outcome) {
  const io::SimRecord record{input.problem.job.name, input.scenario.name,
                             options.seed,           outcome.samples,
                             outcome.fairness,       notes_of(options, input, outcome),
                             DTFM_VERSION,           outcome.interval,
                             outcome.swarm,          model_input(input.problem.job.model)};
  nlohmann::ordered_json document = io::sim_document(input.problem.topology, outcome.report, record);
  std::optional<sim::TimelineComparison> comparison;
  if (input.measured && outcome.timeline) {
    comparison = sim::compare_timelines(*outcome.timeline, *input.measured);
    if (comparison->kinds.empty())
      throw Error(*options.measured,
                  "no activity of the measured iteration is in the simulated one: give the timeline of a "
                  "training with this plan");
    document["measured"] = comparison_json(input.problem.topology, *input.measured, *comparison);
  }
  const std::string json = io::format_json(document);
  if (options.output) write_output_file(*options.output, json);
  if (options.report)  // after the result, which must exist even if the report fails
    write_sim_report(*options.report, input.problem, input.plan, outcome.report, record, outcome.timeline,
                     input.measured);
  for (const auto& output : {options.output, options.trace, options.tasks})
    if (output && io::is_stdout(*output)) return;
  print_result(
      options.format == OutputFormat::json ? json : format_run_summary(input, outcome, record, comparison),
      options.color);
}

int simulate_or_replay(const SimulateOptions& options) {
  InterruptWatch watch("a result");
  const double begin = cpu_seconds();
  check_report(options.report);
  if (is_root(options.work.ranks)) check_files(options);
  const Input input = read_input(options);
  const double read = cpu_seconds();
  watch.keep_result();
  if (!options.samples && !continues_alone(options.work.ranks, true))
    return exit_code::done;  // one run is not divided
  Outcome outcome = run_simulation(options, input, watch);
  if (options.samples && !continues_alone(options.work.ranks, options.quiet)) return exit_code::done;
  outcome.stats.read_cpu_s = read - begin;
  outcome.stats.run_cpu_s = cpu_seconds() - read;
  write_output(options, input, outcome);
  if (options.stats) print_error(stats_json(outcome.stats));
  if (watch.interrupted()) return exit_code::interrupted;
  const bool has_none = outcome.report.iterations.empty() && outcome.report.deadlocked;
  return has_none || !outcome.report.out_of_memory.empty() ? exit_code::infeasible : exit_code::done;
}

}  // namespace

int run_simulate_command(const SimulateOptions& options) {
  try {
    return simulate_or_replay(options);
  } catch (const api::NoLayout& none) {
    print_error(fmt::format("dtfm-sim: {}\n", io::escape_control_characters(none.what(), "\n")));
    return exit_code::infeasible;
  }
}

}  // namespace dtfm::cli
