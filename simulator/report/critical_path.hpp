// The critical path of an iteration: the chain of tasks that determines how long it takes.
#pragma once

#include <string>
#include <vector>

#include "core/cluster/topology.hpp"
#include "simulator/observation/observer.hpp"
#include "simulator/report/sim_report.hpp"

namespace dtfm::sim {

/// Traces back from the task that ends last to the start of the interval. The predecessor of a task that had
/// to wait for its host or queue is the previous task there; the predecessor of any other task is the
/// dependency that ended last. A step ends where the next one begins. Consecutive tasks that compute the same
/// stage on the same device, or send the same kind of data between the same two devices, are one step. Steps
/// of duration 0 are left out.
std::vector<CriticalStep> critical_path(const RunInterval& run_interval, const Topology& topology);

/// The sum of all steps with the same text.
struct CriticalStepTotal {
  std::string text;
  long long tasks = 0;
  double seconds = 0;
};

/// Sums steps with equal texts; the longest sum comes first.
std::vector<CriticalStepTotal> sum_by_text(const std::vector<CriticalStep>& steps);

/// Observer that keeps the critical path of the last completed iteration.
class CriticalPath : public RunObserver {
 public:
  /// `topology` must outlive this.
  explicit CriticalPath(const Topology& topology) : topology_(topology) {}
  void on_interval(const RunInterval& run_interval) override;
  bool counts_repetitions() const override { return true; }
  const std::vector<CriticalStep>& steps() const { return steps_; }

 private:
  const Topology& topology_;
  std::vector<CriticalStep> steps_;
};

}  // namespace dtfm::sim
