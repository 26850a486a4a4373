// What the stages of a plan hold, for memory_use.
#pragma once

#include "planner/core/plan.hpp"
#include "planner/core/problem.hpp"
#include "simulator/report/memory_use.hpp"

namespace dtfm::sim {

/// By stage as labels number them (expand_virtual_stages). A device that the plan does not have, because it has
/// taken the place of another, holds what the stage of that number holds in the pipeline where that is most.
/// With `copies`, every device of the plan has weights and optimizer state of the stage before its own, too,
/// the first that of the last.
StageMemoryOf stage_memory(const Problem& problem, const Plan& plan, bool copies = false);

/// The same, for a run in which a new plan may take the place of the old one: to be told of places before
/// those who ask.
class CurrentStageMemory : public RunObserver {
 public:
  /// `problem` must outlive this.
  CurrentStageMemory(const Problem& problem, const Plan& plan, bool copies = false);
  void place(const Plan& computed) override;
  void on_interval(const RunInterval&) override {}
  /// Of the plan that was placed last. Must not outlive this.
  StageMemoryOf memory_of() const {
    return [this](int device, int stage) { return memory_of_(device, stage); };
  }

 private:
  const Problem& problem_;
  bool copies_;
  Plan layers_;  // without devices
  StageMemoryOf memory_of_;
};

}  // namespace dtfm::sim
