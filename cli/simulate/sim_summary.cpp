#include "cli/simulate/sim_summary.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "cli/common/plan_formatting.hpp"
#include "cli/common/style.hpp"
#include "cli/common/text_formatting.hpp"
#include "cli/simulate/run_tables.hpp"
#include "core/base/index.hpp"
#include "core/io/text/units.hpp"
#include "simulator/report/critical_path.hpp"

namespace dtfm::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

class Writer {
 public:
  explicit Writer(const SimSummary& summary) : s_(summary), report_(summary.report) {}

  std::string title() const {
    const std::string sharding = format_sharding(s_.plan.execution);
    std::string text =
        fmt::format("{}: {} in {}, job {}", s_.topology.name,
                    format_count(static_cast<long long>(s_.topology.devices.size()), "device"),
                    format_count(static_cast<long long>(s_.topology.sites.size()), "site"), s_.record.job);
    if (!s_.record.scenario.empty()) text += ", scenario " + s_.record.scenario;
    text += fmt::format("\n{} of {}, {}, {}{}; {} in {} of simulated time\n",
                        format_count(static_cast<long long>(s_.plan.pipelines.size()), "pipeline"),
                        format_depth(s_.plan), name_of(s_.plan.execution.schedule),
                        name_of(s_.plan.execution.gradient_sync), sharding,
                        format_count(static_cast<long long>(report_.iterations.size()), "iteration"),
                        format_duration(report_.length_s));
    if (!report_.stopped.empty()) text += styled(Style::warning, "stopped early: " + report_.stopped) + "\n";
    return text + format_remarks("note", s_.record.notes);
  }

  /// Adds the useful work. It is known only for runs with failures, preemptions or checkpoints that take
  /// time.
  void add_useful(Rows& rows) const {
    if (!report_.useful) return;
    const sim::UsefulWork& it = *report_.useful;
    rows.push_back({"useful", fmt::format("{} samples/s", format_three_digits(it.samples_per_s)),
                    fmt::format("{} of the ideal: the undisturbed plan, scaled to the available devices",
                                format_percent(it.share_of_optimal))});
    if (report_.rolled_back > 0)
      rows.push_back({"rolled back", format_count(report_.rolled_back, "iteration"),
                      "completed after the last checkpoint, and lost"});
    if (it.usd)
      rows.push_back({"cost", fmt::format("{:.4g} USD", *it.usd),
                      it.usd_egress > 0 ? fmt::format("{:.4g} USD of it for egress", it.usd_egress) : ""});
  }

  /// Adds the time outside of completed iterations.
  void add_between(Rows& rows) const {
    double seconds = report_.length_s;
    for (const sim::IterationReport& it : report_.iterations) seconds -= it.duration_s();
    if (report_.useful && seconds > 1e-6 * report_.length_s)
      rows.push_back({"between", format_duration(seconds),
                      "of " + format_duration(report_.length_s) +
                          ": lost or aborted iterations, waiting, detection, fetching, checkpoints"});
  }

  std::string results() const {
    if (report_.iterations.empty()) return "";  // a note says so
    const sim::Distribution& time = report_.iteration_time_s;
    Rows rows = {
        {"iteration", format_duration(time.mean), spread(time)},
        {"throughput",
         fmt::format("{} {}/s", format_three_digits(report_.tokens_per_s), name_of(s_.record.input)), ""},
        {"model FLOP/s", io::format_flop_rate(FlopsPerSecond(report_.model_flops_per_s)), share_of_peak()},
        {"bubble", format_percent(report_.bubble), "of the devices' time is not compute"}};
    if (const auto& it = s_.record.interval)
      rows.insert(rows.begin() + 1,
                  {"interval", fmt::format("{:.4g} … {:.4g} s", it->low_s, it->high_s),
                   fmt::format("{:.0f} % for measured times, from {}", 100 * it->level, it->source)});
    if (const std::string effect = fairness_effect(); !effect.empty())
      rows.push_back({"fairness", s_.topology.fairness == Fairness::equal ? "equal" : "rtt", effect});
    if (report_.lost_work_s > 0)
      rows.push_back({"lost work", format_duration(report_.lost_work_s), "of compute, summed over devices"});
    add_useful(rows);
    add_between(rows);
    if (s_.record.samples && s_.record.samples->runs > 0) {
      const sim::SampleSummary& samples = *s_.record.samples;
      rows.push_back({"samples", format_duration(samples.iteration_time_s.mean),
                      fmt::format("mean iteration of {}: {}", format_count(samples.runs, "run"),
                                  format_quantiles(samples.iteration_time_s))});
    }
    for (auto& row : rows)
      if (row.back().empty()) row.pop_back();
    return table(rows, false);
  }

  std::string critical_path() const {
    const auto& steps = report_.critical_path;
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

  std::string out_of_memory() const {
    std::string text;
    std::size_t shown = 0;
    for (const sim::DeviceReport& it : report_.devices)
      if (std::count(report_.out_of_memory.begin(), report_.out_of_memory.end(), it.device) > 0 &&
          shown++ < max_run_rows)
        text += styled(Style::bad, fmt::format("exceeds memory: {} needs {} and has {}", id(it.device),
                                               io::format_bytes(Bytes(it.peak_memory_bytes)),
                                               io::format_bytes(Bytes(it.memory_bytes)))) +
                "\n";
    return text + format_omitted(report_.out_of_memory.size(),
                                 std::min(report_.out_of_memory.size(), max_run_rows), "devices");
  }

 private:
  const std::string& id(int device) const { return s_.topology.devices[at(device)].id; }
  /// The effect of the fairness model on the result; empty if there is none.
  std::string fairness_effect() const {
    const auto& it = s_.record.fairness;
    if (!it || it->equal_s == it->rtt_s) return "";
    return fmt::format(
        "an undisturbed iteration takes {:.6g} s if flows share links equally, {:.6g} s if by round-trip "
        "time",
        it->equal_s, it->rtt_s);
  }

  std::string spread(const sim::Distribution& time) const {
    if (report_.iterations.size() == 1) return "";
    return fmt::format("{}; the first {:.6g}", format_quantiles(time),
                       report_.iterations.front().duration_s());
  }

  std::string share_of_peak() const {
    if (report_.peak_flops_per_s <= 0) return "";
    return fmt::format("{} of the peak, {}",
                       format_percent(report_.model_flops_per_s / report_.peak_flops_per_s),
                       io::format_flop_rate(FlopsPerSecond(report_.peak_flops_per_s)));
  }

  const SimSummary& s_;
  const sim::SimReport& report_;
};

}  // namespace

std::string format_summary(const SimSummary& summary) {
  const Writer writer(summary);
  return join_blocks({writer.title() + writer.out_of_memory(), writer.results(),
                      device_table(summary.topology, summary.report), writer.critical_path(),
                      link_table(summary.topology, summary.report), event_table(summary.report)});
}

}  // namespace dtfm::cli
