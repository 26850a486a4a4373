// Why an iteration takes as long as it does.
#pragma once

#include <string>
#include <vector>

#include "planner/core/topology.hpp"
#include "simulator/report/sim_report.hpp"
#include "simulator/observation/observer.hpp"

namespace dtfm::sim {

/// From the task that ends last back to the start: before a task that had to wait for its turn comes the one
/// before it on its host or in its queue; before any other, the one that it waited for and that ended last.
/// A step ends where the next one begins. Neighbours that compute the same stage on the same device, or send
/// the same kind of thing between the same two devices, are one step; what takes no time is left out.
std::vector<CriticalStep> critical_path(const RunInterval& run_interval, const Topology& topology);

/// What the steps of one text have in common.
struct CriticalStepTotal {
  std::string text;
  long long tasks = 0;
  double seconds = 0;
};

/// Steps of the same text together, the longest first.
std::vector<CriticalStepTotal> sum_by_text(const std::vector<CriticalStep>& steps);

/// Of the last whole iteration seen.
class CriticalPath : public RunObserver {
 public:
  /// `topology` must outlive this.
  explicit CriticalPath(const Topology& topology) : topology_(topology) {}
  void on_interval(const RunInterval& run_interval) override {
    if (run_interval.kind == RunInterval::Kind::iteration) steps_ = critical_path(run_interval, topology_);
  }
  const std::vector<CriticalStep>& steps() const { return steps_; }

 private:
  const Topology& topology_;
  std::vector<CriticalStep> steps_;
};

}  // namespace dtfm::sim
