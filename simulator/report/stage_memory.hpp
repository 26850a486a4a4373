// The memory that the stages of a plan need, as input of memory_use.
#pragma once

#include <vector>

#include "core/plan/plan.hpp"
#include "core/plan/problem.hpp"
#include "simulator/report/memory_use.hpp"

namespace dtfm::sim {

/// Memory by device and stage, with stages numbered as in task labels (expand_virtual_stages). A device that
/// is not in the plan, because it has replaced another one, counts with the largest memory that the stage has
/// in any pipeline. With `copies`, every device of the plan also holds weights and optimizer state of the
/// previous stage (those of the first stage: of the last).
StageMemoryOf stage_memory(const Problem& problem, const Plan& plan, bool copies = false);

/// The bytes that each device of the topology needs for its stages of `plan`, 0 if it has none: the peak of
/// an undisturbed iteration. Throws Error if the schedule cannot be run or gives no order (`paths`).
std::vector<double> required_memory(const Problem& problem, const Plan& plan);

/// The same for a run in which a new plan may replace the old one. It must be notified of assignments before
/// the observers that use it.
class CurrentStageMemory : public RunObserver {
 public:
  /// `problem` must outlive this.
  CurrentStageMemory(const Problem& problem, const Plan& plan, bool copies = false);
  void place(const Plan& computed) override;
  void on_interval(const RunInterval&) override {}
  bool counts_repetitions() const override { return true; }
  /// The memory under the last plan passed to `place`. The function must not outlive this object.
  StageMemoryOf memory_of() const {
    return [this](int device, int stage) { return memory_of_(device, stage); };
  }

 private:
  const Problem& problem_;
  bool copies_;
  Plan layers_;  // the current plan without its devices
  StageMemoryOf memory_of_;
};

}  // namespace dtfm::sim
