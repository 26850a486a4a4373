// A plan that moves of annealing change in place, and that can be changed back.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/index.hpp"
#include "planner/search/iteration_time/plan_candidate.hpp"
#include "planner/search/iteration_time/plan_score.hpp"

namespace dtfm::search {

struct Slot {
  int pipeline = 0, stage = 0;
  friend bool operator==(const Slot&, const Slot&) = default;
};

/// By tensor-parallel group: the number of its class. Exchanging two groups of one class changes neither the
/// estimate nor the score of any plan: their devices are of the same kinds, and either on the same host or
/// all of the devices of their hosts.
std::vector<int> interchangeable_classes(const std::vector<std::vector<int>>& groups, const DecidedJob& job,
                                         const PlanScore& score);

/// A plan, and the tensor-parallel groups that their stages use or could use. An edit that
/// is not possible, or would change neither estimate nor score, does nothing. Others can be undone.
class EditablePlan {
 public:
  EditablePlan(const PlanCandidate& start, const PlanScore& score);
  EditablePlan(const EditablePlan&) = delete;
  EditablePlan& operator=(const EditablePlan&) = delete;

  const Plan& plan() const { return plan_; }
  const DecidedJob& job() const { return *job_; }
  int pipelines() const { return static_cast<int>(plan_.pipelines.size()); }
  /// Of every pipeline, if they are equally deep.
  int stages() const { return static_cast<int>(plan_.pipelines.front().stages.size()); }
  /// Groups by number, in nearness order. With mixed degrees some have no devices.
  const std::vector<std::vector<int>>& groups() const { return groups_; }
  int group_at(Slot slot) const { return group_at_[at(slot.pipeline)][at(slot.stage)]; }
  /// Where a group is used, if anywhere.
  std::optional<Slot> slot_of(int group) const { return slot_of_[at(group)]; }
  int unused_groups() const { return static_cast<int>(unused_.size()); }
  /// PlanScore::total_weight of the devices in use.
  double weight() const { return weight_; }
  /// Whether groups differ in speed or memory, so that pipelines may differ in their layers.
  bool has_heterogeneous_pipelines() const { return has_heterogeneous_pipelines_; }

  void swap(Slot a, Slot b);
  /// Replaces the group in the slot by the `number`-th unused one.
  void replace(Slot slot, int number);
  /// Assigns a group, used or unused, to the slot.
  void place(int group, Slot slot);
  /// Leaves a stage the first half of its devices.
  void halve_stage(Slot slot);
  /// Gives a stage as many unused devices of its host as it already has.
  void double_stage(Slot slot);
  /// Moves a layer from stage `from` to a neighbouring one.
  void shift_layer(int pipeline, int from, int to);
  void shift_micro_batches(int from, int to, int count);
  void set_flush(std::optional<int> flush);

  bool is_edited() const { return !undo_.empty(); }
  /// The edits so far can no longer be undone.
  void keep() { undo_.clear(); }
  void undo();

 private:
  Stage& stage_at(Slot slot) { return plan_.pipelines[at(slot.pipeline)].stages[at(slot.stage)]; }
  bool are_interchangeable(int group, int other) const {
    return !class_of_.empty() && class_of_[at(group)] == class_of_[at(other)];
  }
  double weight_of(int group) const { return score_.total_weight(groups_[at(group)]); }
  void put(int group, Slot slot);
  void exchange(Slot a, Slot b);
  void exchange_unused(Slot slot, int number);
  /// Redistributes the devices of two groups of one host: the group in `slot` gets `of_slot`, and the unused
  /// group `other` gets `of_other`. A group without devices does not count.
  void redistribute_host(Slot slot, int other, const std::vector<int>& of_slot,
                         const std::vector<int>& of_other);
  void resize_stage(Slot slot, int other, const std::vector<int>& of_slot, const std::vector<int>& of_other);
  void move_boundary(int pipeline, int from, int to);

  std::shared_ptr<const DecidedJob> job_;
  const PlanScore& score_;
  Plan plan_;
  std::vector<std::vector<int>> groups_;
  std::vector<std::vector<int>> group_at_;    // [pipeline][stage]
  std::vector<std::optional<Slot>> slot_of_;  // by group
  std::vector<int>
      class_of_;             // by group, of interchangeable ones; empty in a warm start or with mixed degrees
  std::vector<int> unused_;  // groups
  double weight_ = 0;
  bool has_heterogeneous_pipelines_ = false;
  std::vector<std::function<void()>> undo_;
};

}  // namespace dtfm::search
