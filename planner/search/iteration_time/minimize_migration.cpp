#include "core/base/index.hpp"
#include "core/plan/shards.hpp"
#include "core/plan/virtual_stages.hpp"
#include "planner/search/iteration_time/fit_plan.hpp"
#include "planner/search/iteration_time/tensor_group_slots.hpp"
#include "planner/search/iteration_time/warm_start.hpp"

namespace dtfm::search {
namespace {

class MigrationMinimizer {
 public:
  MigrationMinimizer(const PlanCandidate& candidate, const PlanScore& score, const StopFunction& stop)
      : job_(*candidate.job),
        from_(candidate),
        stop_(stop),
        tensor_groups_(tensor_groups_for_plan(job_, candidate.plan)),
        missing_bytes_(tensor_groups_, score.migration()),
        evaluator_(candidate.job, score),
        plan_(candidate.plan),
        slot_of_(tensor_groups_.size(), no_tensor_group) {
    const TensorGroupIndex numbers(tensor_groups_);
    for (int p = 0; at(p) < candidate.plan.pipelines.size(); ++p) {
      const Pipeline& pipeline = candidate.plan.pipelines[at(p)];
      const auto layers = layers_by_stage(pipeline, job_.model.chunks);
      for (int s = 0; at(s) < pipeline.stages.size(); ++s) {
        const int tensor_group = numbers.of(pipeline.stages[at(s)].devices);
        slot_of_[at(tensor_group)] = static_cast<int>(slots_.size());
        slots_.push_back({p, s, tensor_group, &missing_bytes_.of(layers[at(s)])});
      }
    }
  }

  Plan run() {
    for (bool is_better = true; is_better;) {
      is_better = false;
      for (int slot = 0; at(slot) < slots_.size(); ++slot) is_better = improve_slot(slot) || is_better;
    }
    plan_.tensor = tensor_degrees(plan_).back();
    return std::move(plan_);
  }

 private:
  struct AssignedSlot {
    int pipeline = 0, stage = 0, tensor_group = 0;
    // By tensor-parallel group: bytes that it must fetch for this slot.
    const std::vector<double>* deficit_bytes;
  };

  /// Assigns a group that already holds the slot's state; the previous group moves to the slot of that one.
  /// Returns whether the score allowed it.
  bool improve_slot(int slot) {
    const AssignedSlot& assigned = slots_[at(slot)];
    const int now = assigned.tensor_group;
    const double missing_bytes = (*assigned.deficit_bytes)[at(now)];
    if (missing_bytes <= 0) return false;
    for (int home = 0; at(home) < tensor_groups_.size(); ++home) {
      if ((*assigned.deficit_bytes)[at(home)] > 0) continue;
      if (const int other = slot_of_[at(home)]; other != no_tensor_group) {
        const std::vector<double>& there = *slots_[at(other)].deficit_bytes;
        if (there[at(now)] - there[at(home)] >= missing_bytes) continue;
      }
      if (evaluations_ >= max_evaluations || is_stopped(stop_)) return false;
      ++evaluations_;
      swap_groups(slot, home);
      if (is_as_good()) return true;
      swap_groups(slot, now);
    }
    return false;
  }

  /// Assigns `tensor_group` to the slot; the previous group moves to the slot of `tensor_group`, if that has
  /// one.
  void swap_groups(int slot, int tensor_group) {
    const int before = slots_[at(slot)].tensor_group, other = slot_of_[at(tensor_group)];
    put(slot, tensor_group);
    slot_of_[at(before)] = other;
    if (other != no_tensor_group) put(other, before);
  }

  void put(int slot, int tensor_group) {
    AssignedSlot& assigned = slots_[at(slot)];
    assigned.tensor_group = tensor_group;
    slot_of_[at(tensor_group)] = slot;
    plan_.pipelines[at(assigned.pipeline)].stages[at(assigned.stage)].devices =
        tensor_groups_[at(tensor_group)];
  }

  /// Tolerates rounding errors, which differ if equal devices swap slots.
  bool is_as_good() {
    constexpr double rounding = 1e-9;
    const PlanCandidate now = evaluator_.evaluate(plan_);
    return now.score <= from_.score * (1 + rounding) && now.deficit_bytes <= from_.deficit_bytes;
  }

  const DecidedJob& job_;
  const PlanCandidate& from_;
  const StopFunction& stop_;
  std::vector<std::vector<int>> tensor_groups_;
  MissingBytes missing_bytes_;
  PlanEvaluator evaluator_;
  Plan plan_;
  std::vector<AssignedSlot> slots_;
  std::vector<int> slot_of_;  // by tensor-parallel group
  long long evaluations_ = 0;
};

}  // namespace

PlanCandidate minimize_migration(const PlanCandidate& candidate, const PlanScore& score,
                                 const StopFunction& stop) {
  return evaluate_plan(candidate.job, MigrationMinimizer(candidate, score, stop).run(), score);
}

}  // namespace dtfm::search
