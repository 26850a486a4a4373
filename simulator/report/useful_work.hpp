// Useful work and cost of a run with failures, preemptions or checkpoints.
#pragma once

#include "core/plan/problem.hpp"
#include "simulator/observation/observer.hpp"
#include "simulator/report/sim_report.hpp"
#include "simulator/scenario/scenario.hpp"

namespace dtfm::sim {

/// Sums the egress cost of all messages that arrive, in USD.
class EgressMeter : public RunObserver {
 public:
  /// The topology must outlive this.
  explicit EgressMeter(const Topology& topology) : topology_(topology) {}
  void on_interval(const RunInterval& run_interval) override;
  bool counts_repetitions() const override { return true; }
  double usd() const { return usd_; }

 private:
  const Topology& topology_;
  double usd_ = 0;
};

/// Whether iterations may be lost or delayed: devices leave or join, slow pipelines are excluded, or
/// checkpoints take time.
bool has_disruptions(const Scenario& scenario);

/// Performance of a plan in an undisturbed run.
struct PlanThroughput {
  double samples = 0, iteration_s = 0;  // samples per iteration, and iteration time
  int devices = 0;
};

/// The useful work of a run of `report.length_s` seconds. All devices cost their own price, or else that of
/// their GPU, as long as they are available, whether or not they are in the plan.
UsefulWork useful_work(const Problem& problem, const Scenario& scenario, const SimReport& report,
                       const PlanThroughput& plan, double usd_egress);

}  // namespace dtfm::sim
