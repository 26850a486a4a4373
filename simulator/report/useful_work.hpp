// What a run with departures was good for, and what it cost.
#pragma once

#include "planner/core/problem.hpp"
#include "simulator/report/sim_report.hpp"
#include "simulator/observation/observer.hpp"
#include "simulator/scenario/scenario.hpp"

namespace dtfm::sim {

/// Adds up what messages that arrive cost their senders, in USD.
class EgressMeter : public RunObserver {
 public:
  /// The topology must outlive this.
  explicit EgressMeter(const Topology& topology) : topology_(topology) {}
  void on_interval(const RunInterval& run_interval) override;
  double usd() const { return usd_; }

 private:
  const Topology& topology_;
  double usd_ = 0;
};

/// Whether iterations may be lost, or wait for anything but each other: machines come and go, pipelines
/// are left out, or checkpoints take time.
bool has_disruptions(const Scenario& scenario);

/// What a plan does undisturbed.
struct PlanThroughput {
  double samples = 0, iteration_s = 0;  // sequences of an iteration, and how long it takes
  int devices = 0;
};

/// Of a run of `report.length_s` seconds. Devices cost their own price, else that of their GPU, for as long
/// as they are there, with a place in the plan or without.
UsefulWork useful_work(const Problem& problem, const Scenario& scenario, const SimReport& report,
                       const PlanThroughput& plan, double usd_egress);

}  // namespace dtfm::sim
