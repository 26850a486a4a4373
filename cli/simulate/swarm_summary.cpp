#include "cli/simulate/swarm_summary.hpp"

#include <vector>

#include <fmt/format.h>

#include "cli/common/style.hpp"
#include "cli/common/text_formatting.hpp"
#include "cli/common/verification_formatting.hpp"
#include "cli/simulate/run_tables.hpp"
#include "core/io/text/units.hpp"

namespace dtfm::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string title(const Topology& topology, const sim::SimReport& report, const io::SimRecord& record) {
  std::string text =
      fmt::format("{}: {} in {}, job {}", topology.name,
                  format_count(static_cast<long long>(report.devices.size()), "device"),
                  format_count(static_cast<long long>(topology.sites.size()), "site"), record.job);
  if (!record.scenario.empty()) text += ", scenario " + record.scenario;
  text += fmt::format("\na swarm of {}; {} in {} of simulated time\n",
                      format_count(static_cast<long long>(record.swarm->report.stages.size()), "stage"),
                      format_count(static_cast<long long>(report.iterations.size()), "step"),
                      format_duration(report.length_s));
  if (!report.stopped.empty()) text += styled(Style::warning, "stopped early: " + report.stopped) + "\n";
  return text + format_remarks("note", record.notes);
}

/// Adds rates, which count completed steps only.
void add_rates(const Problem& problem, const sim::SimReport& report, const io::SimRecord& record,
               Rows& rows) {
  if (report.iterations.empty()) return;  // a note says so
  const double rate = report.tokens_per_s;
  rows.push_back({"step", format_duration(report.iteration_time_s.mean),
                  report.iterations.size() == 1
                      ? ""
                      : fmt::format("{}; the first {:.6g}", format_quantiles(report.iteration_time_s),
                                    report.iterations.front().duration_s())});
  rows.push_back({"throughput", fmt::format("{} {}/s", format_three_digits(rate), name_of(record.input)),
                  fmt::format("{} samples/s, of completed steps",
                              format_three_digits(rate / sequence_length(problem.job.model)))});
  rows.push_back({"model FLOP/s", io::format_flop_rate(FlopsPerSecond(report.model_flops_per_s)),
                  report.peak_flops_per_s > 0
                      ? fmt::format("{} of the peak, {}",
                                    format_percent(report.model_flops_per_s / report.peak_flops_per_s),
                                    io::format_flop_rate(FlopsPerSecond(report.peak_flops_per_s)))
                      : ""});
  if (const auto& cost = record.swarm->usd_per_million_tokens)
    rows.push_back({"cost", fmt::format("{:.4g} USD/M {}", *cost, name_of(record.input)),
                    "of the devices, without egress"});
}

void add_work(const sim::SimReport& report, const sim::SwarmReport& swarm, Rows& rows) {
  rows.push_back({"bubble", format_percent(report.bubble), "of the devices' time is not compute"});
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
  if (report.lost_work_s > 0)
    rows.push_back({"lost work", format_duration(report.lost_work_s), "of compute, summed over devices"});
}

std::string stages(const sim::SwarmReport& swarm) {
  Rows rows = {{"stage", "layers", "peers", "steps", "samples in steps", "held", "lost", "without peers"}};
  for (std::size_t i = 0; i < swarm.stages.size() && i < max_run_rows; ++i) {
    const sim::SwarmStage& it = swarm.stages[i];
    rows.push_back({fmt::format("{}", i), fmt::format("{}–{}", it.layers.first, it.layers.second - 1),
                    with_thousands(it.peers), with_thousands(it.steps), with_thousands(it.accepted),
                    with_thousands(it.held), with_thousands(it.lost), format_duration(it.blocked_s)});
  }
  return table(rows) + format_omitted(swarm.stages.size(), rows.size() - 1, "stages");
}

}  // namespace

std::string format_swarm_summary(const Problem& problem, const sim::SimReport& report,
                                 const io::SimRecord& record) {
  const sim::SwarmReport& swarm = record.swarm->report;
  Rows rows;
  add_rates(problem, report, record, rows);
  add_work(report, swarm, rows);
  for (auto& row : rows)
    if (row.back().empty()) row.pop_back();
  const std::string verified = report.verification ? format_verification(report) + "\n" : "";
  return join_blocks({title(problem.topology, report, record), table(rows, false) + verified, stages(swarm),
                      device_table(problem.topology, report, true), link_table(problem.topology, report),
                      event_table(report)});
}

}  // namespace dtfm::cli
