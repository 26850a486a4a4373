// Collects the statistics of a report that come from observing the run.
#pragma once

#include <vector>

#include "core/cluster/topology.hpp"
#include "simulator/report/critical_path.hpp"
#include "simulator/report/device_usage.hpp"
#include "simulator/report/memory_use.hpp"
#include "simulator/report/sim_report.hpp"
#include "simulator/report/site_traffic.hpp"

namespace dtfm::sim {

class RunStatistics : public RunObserver {
 public:
  /// `topology` must outlive this. `down`: for each of its devices the intervals in which it is unavailable,
  /// ascending.
  RunStatistics(const Topology& topology, StageMemoryOf memory_of, std::vector<std::vector<Interval>> down);
  void on_interval(const RunInterval& run_interval) override;
  bool counts_repetitions() const override { return true; }
  void place(const Plan& plan) override { memory_use_.place(plan); }

  /// Fills in the devices (in ascending order), the links, the critical path and the devices that are out of
  /// memory. `length_s` is the length of the run in seconds.
  void add_to(SimReport& report, std::vector<int> devices, double length_s) const;

 private:
  const Topology& topology_;
  DeviceUsage device_usage_;
  SiteTraffic site_traffic_;
  MemoryUse memory_use_;
  CriticalPath critical_path_;
};

}  // namespace dtfm::sim
