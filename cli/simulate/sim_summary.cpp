#include "cli/simulate/sim_summary.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "cli/common/plan_formatting.hpp"
#include "cli/common/style.hpp"
#include "cli/common/text_formatting.hpp"
#include "cli/common/topology_formatting.hpp"
#include "cli/common/verification_formatting.hpp"
#include "cli/simulate/run_tables.hpp"
#include "core/base/index.hpp"
#include "core/io/text/units.hpp"
#include "planner/io/simulation_document.hpp"
#include "simulator/report/critical_path.hpp"

namespace dtfm::cli {
namespace {

using Result = api::SimulateResult;

std::string format_what(const Result& result) {
  if (result.is_swarm())
    return fmt::format("a swarm of {}",
                       format_count(static_cast<long long>(result.swarm->report.stages.size()), "stage"));
  const Plan& plan = result.plan;
  return fmt::format("{} of {}, {}, {}{}",
                     format_count(static_cast<long long>(plan.pipelines.size()), "pipeline"),
                     format_depth(plan), name_of(plan.execution.schedule),
                     name_of(plan.execution.gradient_sync), format_sharding(plan.execution));
}

std::string title(const api::SimulateRequest& request, const Result& result) {
  const sim::SimReport& report = result.report;
  std::string text =
      fmt::format("{}, job {}", format_topology_size(result.problem.topology), result.problem.job.name);
  if (!result.scenario.name.empty()) text += ", scenario " + result.scenario.name;
  text += fmt::format("\n{}; {} in {} of simulated time\n", format_what(result),
                      format_count(static_cast<long long>(report.iterations.size()),
                                   result.is_swarm() ? "step" : "iteration"),
                      format_duration(report.length_s));
  if (!report.stopped.empty()) text += styled(Style::warning, "stopped early: " + report.stopped) + "\n";
  return text + format_remarks("note", io::simulation_notes(request, result));
}

/// Adds what completed iterations, or steps of a swarm, give. A note says so if there is none.
void add_rates(const Result& result, Rows& rows) {
  const sim::SimReport& report = result.report;
  if (report.iterations.empty()) return;
  const sim::Distribution& time = report.iteration_time_s;
  rows.push_back({result.is_swarm() ? "step" : "iteration", format_duration(time.mean),
                  report.iterations.size() == 1 ? ""
                                                : fmt::format("{}; the first {:.6g}", format_quantiles(time),
                                                              report.iterations.front().duration_s())});
  if (const auto& it = result.interval)
    rows.push_back({"interval", fmt::format("{:.4g} … {:.4g} s", it->low_s, it->high_s),
                    fmt::format("{:.0f} % for measured times, from {}", 100 * it->level, it->source)});
  const double rate = report.tokens_per_s;
  const Model& model = result.problem.job.model;
  rows.push_back({"throughput",
                  fmt::format("{} {}/s", format_three_digits(rate), name_of(model_input(model))),
                  result.is_swarm() ? fmt::format("{} samples/s, of completed steps",
                                                  format_three_digits(rate / sequence_length(model)))
                                    : ""});
  rows.push_back({"model FLOP/s", io::format_flop_rate(FlopsPerSecond(report.model_flops_per_s)),
                  report.peak_flops_per_s > 0
                      ? fmt::format("{} of the peak, {}",
                                    format_percent(report.model_flops_per_s / report.peak_flops_per_s),
                                    io::format_flop_rate(FlopsPerSecond(report.peak_flops_per_s)))
                      : ""});
}

void add_bubble(const sim::SimReport& report, Rows& rows) {
  rows.push_back({"bubble", format_percent(report.bubble), "of the devices' time is not compute"});
}

void add_lost_work(const sim::SimReport& report, Rows& rows) {
  if (report.lost_work_s > 0)
    rows.push_back({"lost work", format_duration(report.lost_work_s), "of compute, summed over devices"});
}

/// Adds the effect of the fairness model, if there is any.
void add_fairness(const Result& result, Rows& rows) {
  const auto& it = result.fairness;
  if (!it || it->equal_s == it->rtt_s) return;
  rows.push_back(
      {"fairness", result.problem.topology->fairness == Fairness::equal ? "equal" : "rtt",
       fmt::format("an undisturbed iteration takes {:.6g} s if flows share links equally, {:.6g} s "
                   "if by round-trip time",
                   it->equal_s, it->rtt_s)});
}

/// Adds the useful work and the time outside of completed iterations. It is known only for runs with
/// failures, preemptions or checkpoints that take time.
void add_useful(const sim::SimReport& report, Rows& rows) {
  if (!report.useful) return;
  const sim::UsefulWork& it = *report.useful;
  rows.push_back({"useful", fmt::format("{} samples/s", format_three_digits(it.samples_per_s)),
                  fmt::format("{} of the ideal: the undisturbed plan, scaled to the available devices",
                              format_percent(it.share_of_optimal))});
  if (report.rolled_back > 0)
    rows.push_back({"rolled back", format_count(report.rolled_back, "iteration"),
                    "completed after the last checkpoint, and lost"});
  if (it.usd)
    rows.push_back({"cost", fmt::format("{:.4g} USD", *it.usd),
                    it.usd_egress > 0 ? fmt::format("{:.4g} USD of it for egress", it.usd_egress) : ""});
  double between_s = report.length_s;
  for (const sim::IterationReport& iteration : report.iterations) between_s -= iteration.duration_s();
  if (between_s > 1e-6 * report.length_s)
    rows.push_back({"between", format_duration(between_s),
                    "of " + format_duration(report.length_s) +
                        ": lost or aborted iterations, waiting, detection, fetching, checkpoints"});
}

std::string format_rows(Rows rows) {
  for (auto& row : rows)
    if (row.back().empty()) row.pop_back();
  return table(rows, false);
}

std::string plan_results(const Result& result) {
  const sim::SimReport& report = result.report;
  if (report.iterations.empty()) return "";
  Rows rows;
  add_rates(result, rows);
  add_bubble(report, rows);
  add_fairness(result, rows);
  add_lost_work(report, rows);
  add_useful(report, rows);
  if (result.samples && result.samples->summary.runs > 0) {
    const sim::SampleSummary& samples = result.samples->summary;
    rows.push_back({"samples", format_duration(samples.iteration_time_s.mean),
                    fmt::format("mean iteration of {}: {}", format_count(samples.runs, "run"),
                                format_quantiles(samples.iteration_time_s))});
  }
  return format_rows(std::move(rows));
}

std::string swarm_results(const Result& result) {
  const sim::SwarmReport& swarm = result.swarm->report;
  Rows rows;
  add_rates(result, rows);
  if (const auto& cost = result.swarm->usd_per_million_tokens; cost && !result.report.iterations.empty())
    rows.push_back({"cost",
                    fmt::format("{:.4g} USD/M {}", *cost, name_of(model_input(result.problem.job.model))),
                    "of the devices, without egress"});
  add_bubble(result.report, rows);
  rows.push_back(
      {"useful", format_count(swarm.useful_samples, "sample"),
       fmt::format("{} samples/s, {} of {}what the peers could compute",
                   format_three_digits(swarm.useful_samples_per_s), format_percent(swarm.share_of_optimum),
                   swarm.optimum_is_exact ? "" : "a bound of ")});
  rows.push_back({"requests", format_count(swarm.timeouts, "timeout"),
                  fmt::format("{}, micro-batches restarted: {}", format_count(swarm.bans, "ban"),
                              with_thousands(swarm.restarts))});
  if (swarm.failures + swarm.joins + swarm.moves > 0)
    rows.push_back({"peers", format_count(swarm.failures, "failure"),
                    fmt::format("{}, stage switches: {}", format_count(swarm.joins, "join"),
                                with_thousands(swarm.moves))});
  add_lost_work(result.report, rows);
  return format_rows(std::move(rows)) +
         (result.report.verification ? format_verification(result.report) + "\n" : "");
}

std::string swarm_stages(const sim::SwarmReport& swarm) {
  Rows rows = {{"stage", "layers", "peers", "steps", "samples in steps", "held", "lost", "without peers"}};
  for (std::size_t i = 0; i < swarm.stages.size() && i < max_run_rows; ++i) {
    const sim::SwarmStage& it = swarm.stages[i];
    rows.push_back({fmt::format("{}", i), fmt::format("{}–{}", it.layers.first, it.layers.second - 1),
                    with_thousands(it.peers), with_thousands(it.steps), with_thousands(it.accepted),
                    with_thousands(it.held), with_thousands(it.lost), format_duration(it.blocked_s)});
  }
  return table(rows) + format_omitted(swarm.stages.size(), rows.size() - 1, "stages");
}

std::string critical_path(const sim::SimReport& report) {
  const auto& steps = report.critical_path;
  if (steps.empty()) return "";
  const bool are_many = steps.size() > max_run_rows;
  std::vector<sim::CriticalStepTotal> shown;
  if (are_many)
    shown = sim::sum_by_text(steps);
  else
    for (const sim::CriticalStep& it : steps) shown.push_back({it.text, it.tasks, it.end_s - it.start_s});
  std::string title = "Critical path of the last iteration";
  if (are_many)
    title += fmt::format(": {} steps, summed by what they do",
                         with_thousands(static_cast<long long>(steps.size())));
  const double whole = steps.back().end_s - steps.front().start_s;
  Rows rows;
  for (std::size_t i = 0; i < shown.size() && i < max_run_rows; ++i)
    rows.push_back({fmt::format("{:>7}", format_percent(shown[i].seconds / whole)),
                    fmt::format("{} × {}", with_thousands(shown[i].tasks), shown[i].text)});
  return styled(Style::heading, title) + "\n" + table(rows, false) +
         format_omitted(shown.size(), rows.size(), "kinds of steps");
}

std::string out_of_memory(const Topology& topology, const sim::SimReport& report) {
  std::string text;
  std::size_t shown = 0;
  for (const sim::DeviceReport& it : report.devices)
    if (std::count(report.out_of_memory.begin(), report.out_of_memory.end(), it.device) > 0 &&
        shown++ < max_run_rows)
      text += styled(Style::bad,
                     fmt::format("exceeds memory: {} needs {} and has {}", topology.devices[at(it.device)].id,
                                 io::format_bytes(Bytes(it.peak_memory_bytes)),
                                 io::format_bytes(Bytes(it.memory_bytes)))) +
              "\n";
  return text + format_omitted(report.out_of_memory.size(),
                               std::min(report.out_of_memory.size(), max_run_rows), "devices");
}

std::string format_milliseconds(double seconds) {
  return fmt::format("{:.2f} ms", 1e3 * seconds);
}

}  // namespace

std::string format_comparison(const Topology& topology, const sim::Timeline& measured,
                              const sim::TimelineComparison& comparison) {
  std::string text = fmt::format("{}: {} takes {:.6g} s, {:.1f} % {} than the simulated one\n",
                                 styled(Style::heading, "Measured"), measured.title, comparison.measured_s,
                                 100 * std::abs(comparison.measured_s / comparison.simulated_s - 1),
                                 comparison.measured_s < comparison.simulated_s ? "less" : "longer");
  Rows rows = {{"kind", "simulated", "measured", "number"}};
  for (const sim::TimelineComparison::Kind& it : comparison.kinds)
    rows.push_back({std::string(name_of(it.kind)), format_milliseconds(it.simulated_s),
                    format_milliseconds(it.measured_s), with_thousands(it.count)});
  text += table(rows);
  if (comparison.unmatched > 0)
    text += fmt::format("{} only in one of the two timelines\n", format_count(comparison.unmatched, "span"));
  if (!comparison.diverges_at)
    return text + fmt::format("no computation starts more than {:.0f} % of the iteration earlier or later\n",
                              100 * comparison.tolerance);
  const auto& [device, simulated, found] = *comparison.diverges_at;
  return text + fmt::format(
                    "They diverge at {} of micro-batch {} on {}: it starts after {:.6g} s, in the "
                    "simulation after {:.6g} s\n",
                    name_of(found.kind), found.micro_batch, topology.devices[at(device)].id, found.start,
                    simulated.start);
}

std::string format_summary(const api::SimulateRequest& request, const api::SimulateResult& result) {
  const Topology& topology = result.problem.topology;
  const sim::SimReport& report = result.report;
  return join_blocks(
      {title(request, result) + out_of_memory(topology, report),
       result.is_swarm() ? swarm_results(result) : plan_results(result),
       result.is_swarm() ? swarm_stages(result.swarm->report) : "",
       device_table(topology, report, result.is_swarm()), critical_path(report), link_table(topology, report),
       event_table(report),
       result.comparison ? format_comparison(topology, *request.measured, *result.comparison) : ""});
}

}  // namespace dtfm::cli
