#include "cli/sim_summary.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "cli/style.hpp"
#include "cli/words.hpp"
#include "planner/core/index.hpp"
#include "planner/io/units.hpp"
#include "simulator/report/critical_path.hpp"

namespace dtfm {
namespace {

constexpr std::size_t most_rows = 12;

using Rows = std::vector<std::vector<std::string>>;

/// "43.81 s", six significant digits.
std::string seconds(double value) {
  return fmt::format("{:.6g} s", value);
}

/// All digits before the point, at least three in all.
std::string three_digits(double value) {
  constexpr double least_whole = 99.95, most_whole = 1e15;
  if (value >= least_whole && value < most_whole) return with_thousands(std::llround(value));
  return fmt::format("{:#.3g}", value);
}

std::string and_more(std::size_t all, std::size_t shown, std::string_view noun) {
  if (all <= shown) return "";
  return fmt::format("… {} more {}; the result file (-o) has all\n",
                     with_thousands(static_cast<long long>(all - shown)), noun);
}

/// Devices that are told of together.
struct DeviceGroup {
  std::string name;
  std::vector<const DeviceReport*> devices;
};

class Writer {
 public:
  explicit Writer(const SimSummary& summary) : s_(summary), report_(summary.report) {}

  std::string title() const {
    std::string text =
        fmt::format("{}: {} in {}, job {}", s_.topology.name,
                    counted(static_cast<long long>(report_.devices.size()), "device"),
                    counted(static_cast<long long>(s_.topology.sites.size()), "site"), s_.record.job);
    if (!s_.record.scenario.empty()) text += ", scenario " + s_.record.scenario;
    text += fmt::format("\n{} of {}, {}, {}; {} in {} of simulated time\n",
                        counted(static_cast<long long>(s_.plan.pipelines.size()), "pipeline"),
                        counted(depth(s_.plan), "stage"), s_.plan.schedule, s_.plan.gradient_sync,
                        counted(static_cast<long long>(report_.iterations.size()), "iteration"),
                        seconds(report_.length_s));
    if (!report_.stopped.empty()) text += styled(Style::warning, "stopped early: " + report_.stopped) + "\n";
    return text + remarks("note", s_.record.notes);
  }

  /// Where machines come and go, or checkpoints take time.
  void add_useful(Rows& rows) const {
    if (!report_.useful) return;
    const UsefulWork& it = *report_.useful;
    rows.push_back(
        {"useful", fmt::format("{} samples/s", three_digits(it.samples_per_s)),
         fmt::format("{} of what the devices that were there could do", percent(it.share_of_optimal))});
    if (report_.rolled_back > 0)
      rows.push_back({"rolled back", counted(report_.rolled_back, "iteration"),
                      "completed after the last checkpoint, and lost"});
    if (it.usd)
      rows.push_back(
          {"cost", fmt::format("{:.4g} USD", *it.usd),
           it.usd_egress > 0 ? fmt::format("{:.4g} USD of it for what is sent", it.usd_egress) : ""});
  }

  std::string results() const {
    if (report_.iterations.empty()) return "";  // a note says so
    const Distribution& time = report_.iteration_time_s;
    Rows rows = {
        {"iteration", seconds(time.mean) + interval(), spread(time)},
        {"throughput", three_digits(report_.tokens_per_s) + " tokens/s", ""},
        {"model FLOP/s", format_flop_rate(FlopsPerSecond(report_.model_flops_per_s)), share_of_peak()},
        {"bubble", percent(report_.bubble), "of the devices' time is not computing"}};
    if (const std::string effect = fairness_effect(); !effect.empty())
      rows.push_back({"fairness", s_.topology.fairness == Fairness::equal ? "equal" : "rtt", effect});
    if (report_.lost_work_s > 0)
      rows.push_back({"lost work", seconds(report_.lost_work_s), "of computing, summed over devices"});
    add_useful(rows);
    if (s_.record.samples) {
      const SampleSummary& samples = *s_.record.samples;
      rows.push_back({"samples", seconds(samples.iteration_time_s.mean),
                      fmt::format("mean iteration of {}: {}", counted(samples.runs, "run"),
                                  quantiles(samples.iteration_time_s))});
    }
    for (auto& row : rows)
      if (row.back().empty()) row.pop_back();
    return table(rows, false);
  }

  std::string devices() const {
    Rows rows = {{"where the time goes", "compute", "network", "others", "down", "sending", "receiving",
                  "peak memory"}};
    std::vector<DeviceGroup> groups = device_groups();
    const std::size_t all = groups.size();
    groups.resize(std::min(all, most_rows));
    DeviceGroup everyone{"all devices", {}};
    for (const DeviceReport& device : report_.devices) everyone.devices.push_back(&device);
    rows.push_back(device_row(everyone));
    for (const DeviceGroup& group : groups) rows.push_back(device_row(group));
    return table(rows) + and_more(all, groups.size(), "sites");
  }

  std::string critical_path() const {
    const auto& steps = report_.critical_path;
    if (steps.empty()) return "";
    const bool are_many = steps.size() > most_rows;
    std::vector<CriticalSum> shown;
    if (are_many)
      shown = summed(steps);
    else
      for (const CriticalStep& it : steps) shown.push_back({it.text, it.tasks, it.end_s - it.start_s});
    std::string title = "Critical path of the last iteration";
    if (are_many)
      title += fmt::format(": {} steps, summed by what they do",
                           with_thousands(static_cast<long long>(steps.size())));
    const double whole = steps.back().end_s - steps.front().start_s;
    Rows rows;
    for (std::size_t i = 0; i < shown.size() && i < most_rows; ++i)
      rows.push_back({fmt::format("{:>7}", percent(shown[i].seconds / whole)),
                      fmt::format("{} × {}", with_thousands(shown[i].tasks), shown[i].text)});
    return styled(Style::heading, title) + "\n" + table(rows, false) +
           and_more(shown.size(), rows.size(), "kinds of steps");
  }

  std::string links() const {
    if (report_.links.empty()) return "";
    Rows rows = {{"busiest links", "bytes", "busy", "rate while busy"}};
    for (std::size_t i = 0; i < report_.links.size() && i < most_rows; ++i) {
      const LinkReport& it = report_.links[i];
      const double rate = it.busy_s > 0 ? it.bytes * bits_per_byte / it.busy_s : 0;
      rows.push_back({site(it.from) + " → " + site(it.to), format_bytes(Bytes(it.bytes)),
                      percent(report_.length_s > 0 ? it.busy_s / report_.length_s : 0),
                      rate > 0 ? format_rate(BitsPerSecond(rate)) : "–"});
    }
    return table(rows) + and_more(report_.links.size(), rows.size() - 1, "links");
  }

  std::string events() const {
    if (report_.events.empty()) return "";
    Rows rows = {{"date", "what happened"}};
    for (std::size_t i = 0; i < report_.events.size() && i < most_rows; ++i)
      rows.push_back({seconds(report_.events[i].date_s), report_.events[i].text});
    return table(rows) + and_more(report_.events.size(), rows.size() - 1, "events");
  }

  std::string overfull() const {
    std::string text;
    std::size_t shown = 0;
    for (const DeviceReport& it : report_.devices)
      if (std::count(report_.overfull.begin(), report_.overfull.end(), it.device) > 0 && shown++ < most_rows)
        text += styled(Style::bad, fmt::format("does not fit: {} needs {} and has {}", id(it.device),
                                               format_bytes(Bytes(it.peak_memory_bytes)),
                                               format_bytes(Bytes(it.memory_bytes)))) +
                "\n";
    return text + and_more(report_.overfull.size(), std::min(report_.overfull.size(), most_rows), "devices");
  }

 private:
  const std::string& id(int device) const { return s_.topology.devices[at(device)].id; }
  const std::string& site(int index) const { return s_.topology.sites[at(index)].name; }

  /// How much it moves the result how competing flows share; nothing where none do.
  std::string fairness_effect() const {
    const auto& it = s_.record.fairness;
    if (!it || it->equal_s == it->rtt_s) return "";
    return fmt::format(
        "flows that share alike take {:.6g} s an undisturbed iteration, by round trip {:.6g} s", it->equal_s,
        it->rtt_s);
  }

  /// " (41.9 … 45.7, 95 %)" where it is known.
  std::string interval() const {
    return s_.record.interval ? fmt::format(" {}", interval_in_words(*s_.record.interval)) : "";
  }

  static std::string quantiles(const Distribution& values) {
    return fmt::format("p50 {:.6g}, p95 {:.6g}, p99 {:.6g}, {:.6g} to {:.6g}", values.p50, values.p95,
                       values.p99, values.min, values.max);
  }

  std::string spread(const Distribution& time) const {
    if (report_.iterations.size() == 1) return "";
    if (s_.record.interval) return quantiles(time);  // for the rest there is no room
    return fmt::format("{}; the first {:.6g}", quantiles(time), report_.iterations.front().duration_s());
  }

  std::string share_of_peak() const {
    if (report_.peak_flops_per_s <= 0) return "";
    return fmt::format("{} of the peak, {}", percent(report_.model_flops_per_s / report_.peak_flops_per_s),
                       format_flop_rate(FlopsPerSecond(report_.peak_flops_per_s)));
  }

  /// Each device for itself where they are few, else by site.
  std::vector<DeviceGroup> device_groups() const {
    std::vector<DeviceGroup> groups;
    if (report_.devices.size() <= most_rows) {
      for (const DeviceReport& it : report_.devices) groups.push_back({id(it.device), {&it}});
      return groups;
    }
    std::map<int, DeviceGroup> by_site;
    for (const DeviceReport& it : report_.devices)
      by_site[s_.topology.devices[at(it.device)].site].devices.push_back(&it);
    for (auto& [index, group] : by_site)
      groups.push_back({fmt::format("{} ×{}", site(index), group.devices.size()), std::move(group.devices)});
    return groups;
  }

  /// Means of the group, as shares of the run; of memory the most.
  std::vector<std::string> device_row(const DeviceGroup& group) const {
    const auto mean = [&](double DeviceReport::*field) {
      double sum = 0;
      for (const DeviceReport* it : group.devices) sum += it->*field;
      const double whole = report_.length_s * static_cast<double>(group.devices.size());
      return percent(whole > 0 ? sum / whole : 0);
    };
    double memory = 0;
    for (const DeviceReport* it : group.devices) memory = std::max(memory, it->peak_memory_bytes);
    return {group.name,
            mean(&DeviceReport::compute_s),
            mean(&DeviceReport::waiting_network_s),
            mean(&DeviceReport::waiting_others_s),
            mean(&DeviceReport::down_s),
            mean(&DeviceReport::sending_s),
            mean(&DeviceReport::receiving_s),
            format_bytes(Bytes(memory))};
  }

  const SimSummary& s_;
  const SimReport& report_;
};

}  // namespace

std::string summary_text(const SimSummary& summary) {
  const Writer writer(summary);
  return joined_blocks({writer.title() + writer.overfull(), writer.results(), writer.devices(),
                        writer.critical_path(), writer.links(), writer.events()});
}

}  // namespace dtfm
