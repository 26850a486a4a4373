#include "cli/simulate/run_tables.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "cli/common/text_formatting.hpp"
#include "core/base/index.hpp"
#include "core/io/text/units.hpp"

namespace dtfm::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

/// Devices that share a row of the table.
struct DeviceGroup {
  std::string name;
  std::vector<const sim::DeviceReport*> devices;
};

std::vector<DeviceGroup> device_groups(const Topology& topology, const sim::SimReport& report) {
  std::vector<DeviceGroup> groups;
  if (report.devices.size() <= max_run_rows) {
    for (const sim::DeviceReport& it : report.devices)
      groups.push_back({topology.devices[at(it.device)].id, {&it}});
    return groups;
  }
  std::map<int, DeviceGroup> by_site;
  for (const sim::DeviceReport& it : report.devices)
    by_site[topology.devices[at(it.device)].site].devices.push_back(&it);
  for (auto& [index, group] : by_site)
    groups.push_back({fmt::format("{} ×{}", topology.sites[at(index)].name, group.devices.size()),
                      std::move(group.devices)});
  return groups;
}

/// Mean times of the group, as shares of the run's length, and its maximum memory.
std::vector<std::string> device_row(const DeviceGroup& group, double length_s, bool is_swarm) {
  std::vector<std::string> row = {group.name};
  const auto add_mean = [&](double sim::DeviceReport::*field) {
    double sum = 0;
    for (const sim::DeviceReport* it : group.devices) sum += it->*field;
    const double whole = length_s * static_cast<double>(group.devices.size());
    row.push_back(format_percent(whole > 0 ? sum / whole : 0));
  };
  for (auto field : {&sim::DeviceReport::compute_s, &sim::DeviceReport::waiting_network_s,
                     &sim::DeviceReport::waiting_others_s, &sim::DeviceReport::down_s})
    add_mean(field);
  if (is_swarm) return row;
  add_mean(&sim::DeviceReport::sending_s);
  add_mean(&sim::DeviceReport::receiving_s);
  double memory = 0;
  for (const sim::DeviceReport* it : group.devices) memory = std::max(memory, it->peak_memory_bytes);
  row.push_back(io::format_bytes(Bytes(memory)));
  return row;
}

}  // namespace

std::string format_duration(double value) {
  return fmt::format("{:.6g} s", value);
}

std::string format_three_digits(double value) {
  constexpr double min_whole = 99.95, max_whole = 1e15;
  if (value >= min_whole && value < max_whole) return with_thousands(std::llround(value));
  return fmt::format("{:#.3g}", value);
}

std::string format_omitted(std::size_t all, std::size_t shown, std::string_view noun) {
  if (all <= shown) return "";
  return fmt::format("… {} more {}; the result file (-o) has all\n",
                     with_thousands(static_cast<long long>(all - shown)), noun);
}

std::string format_quantiles(const sim::Distribution& values) {
  return fmt::format("p50 {:.6g}, p95 {:.6g}, p99 {:.6g}, {:.6g} to {:.6g}", values.p50, values.p95,
                     values.p99, values.min, values.max);
}

std::string device_table(const Topology& topology, const sim::SimReport& report, bool is_swarm) {
  Rows rows = {{"where the time goes", "compute", "network", "others", "down"}};
  if (is_swarm)
    rows.front()[2] = "fetching", rows.front()[3] = "idle";
  else
    rows.front().insert(rows.front().end(), {"sending", "receiving", "peak memory"});
  std::vector<DeviceGroup> groups = device_groups(topology, report);
  const std::size_t all = groups.size();
  groups.resize(std::min(all, max_run_rows));
  DeviceGroup all_devices{"all devices", {}};
  for (const sim::DeviceReport& device : report.devices) all_devices.devices.push_back(&device);
  rows.push_back(device_row(all_devices, report.length_s, is_swarm));
  for (const DeviceGroup& group : groups) rows.push_back(device_row(group, report.length_s, is_swarm));
  return table(rows) + format_omitted(all, groups.size(), "sites");
}

std::string link_table(const Topology& topology, const sim::SimReport& report) {
  if (report.links.empty()) return "";
  Rows rows = {{"busiest links", "bytes", "busy", "rate while busy"}};
  for (std::size_t i = 0; i < report.links.size() && i < max_run_rows; ++i) {
    const sim::LinkReport& it = report.links[i];
    const double rate = it.busy_s > 0 ? it.bytes * bits_per_byte / it.busy_s : 0;
    rows.push_back({topology.sites[at(it.from)].name + " → " + topology.sites[at(it.to)].name,
                    io::format_bytes(Bytes(it.bytes)),
                    format_percent(report.length_s > 0 ? it.busy_s / report.length_s : 0),
                    rate > 0 ? io::format_rate(BitsPerSecond(rate)) : "–"});
  }
  return table(rows) + format_omitted(report.links.size(), rows.size() - 1, "links");
}

std::string event_table(const sim::SimReport& report) {
  if (report.events.empty()) return "";
  Rows rows = {{"date", "what happened"}};
  for (std::size_t i = 0; i < report.events.size() && i < max_run_rows; ++i)
    rows.push_back({format_duration(report.events[i].date_s), report.events[i].text});
  return table(rows) + format_omitted(report.events.size(), rows.size() - 1, "events");
}

}  // namespace dtfm::cli
