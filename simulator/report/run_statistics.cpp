#include "simulator/report/run_statistics.hpp"

#include <algorithm>
#include <utility>

#include "core/base/index.hpp"

namespace dtfm::sim {
namespace {

std::vector<int> sites_of(const Topology& topology) {
  std::vector<int> sites;
  for (const Device& device : topology.devices) sites.push_back(device.site);
  return sites;
}

}  // namespace

RunStatistics::RunStatistics(const Topology& topology, StageMemoryOf memory_of,
                             std::vector<std::vector<Interval>> down)
    : topology_(topology),
      device_usage_(std::move(down)),
      site_traffic_(sites_of(topology)),
      memory_use_(topology.size(), std::move(memory_of)),
      critical_path_(topology) {}

/// Throws WorkStopped, and then leaves the statistics as they were, since the interval does not count.
void RunStatistics::on_interval(const RunInterval& run_interval) {
  DeviceUsage device_usage = device_usage_;
  SiteTraffic site_traffic = site_traffic_;
  MemoryUse memory_use = memory_use_;
  device_usage.on_interval(run_interval);
  site_traffic.on_interval(run_interval);
  memory_use.on_interval(run_interval);
  critical_path_.on_interval(run_interval);
  device_usage_ = std::move(device_usage);
  site_traffic_ = std::move(site_traffic);
  memory_use_ = std::move(memory_use);
}

void RunStatistics::add_to(SimReport& report, std::vector<int> devices, double length_s) const {
  const std::vector<DeviceTimes> all_times = device_usage_.times(length_s);
  std::sort(devices.begin(), devices.end());
  for (const int device : devices) {
    const DeviceTimes& times = all_times[at(device)];
    DeviceReport it;
    it.device = device;
    it.compute_s = times.compute_s;
    it.waiting_network_s = times.waiting_network_s;
    it.waiting_others_s = times.waiting_others_s;
    it.down_s = times.down_s;
    it.sending_s = times.sending_s;
    it.receiving_s = times.receiving_s;
    it.peak_memory_bytes = memory_use_.peaks()[at(device)];
    const int gpu = topology_.devices[at(device)].gpu;
    if (gpu >= 0) it.memory_bytes = topology_.gpus[at(gpu)].memory.value();
    if (it.memory_bytes > 0 && it.peak_memory_bytes > it.memory_bytes) report.out_of_memory.push_back(device);
    report.devices.push_back(it);
  }
  report.links = site_traffic_.reports();
  report.critical_path = critical_path_.steps();
}

}  // namespace dtfm::sim
