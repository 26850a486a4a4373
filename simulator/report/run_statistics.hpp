// Everything of a report that is learnt by looking at the run.
#pragma once

#include <vector>

#include "planner/core/topology.hpp"
#include "simulator/report/critical_path.hpp"
#include "simulator/report/device_usage.hpp"
#include "simulator/report/memory_use.hpp"
#include "simulator/report/sim_report.hpp"
#include "simulator/report/site_traffic.hpp"

namespace dtfm::sim {

class RunStatistics : public RunObserver {
 public:
  /// `topology` must outlive this. `down`: when each device of it is not there, ascending.
  RunStatistics(const Topology& topology, StageMemoryOf memory_of, std::vector<std::vector<Interval>> down);
  void on_interval(const RunInterval& run_interval) override;
  void place(const Plan& plan) override { memory_use_.place(plan); }

  /// Fills in what is known of `devices`, links, critical path and devices whose memory does not suffice. The
  /// run took `length_s` seconds. The report has the devices in their order.
  void add_to(SimReport& report, std::vector<int> devices, double length_s) const;

 private:
  const Topology& topology_;
  DeviceUsage device_usage_;
  SiteTraffic site_traffic_;
  MemoryUse memory_use_;
  CriticalPath critical_path_;
};

}  // namespace dtfm::sim
