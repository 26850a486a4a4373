#include <algorithm>
#include <optional>

#include "core/base/index.hpp"
#include "core/plan/shards.hpp"
#include "core/plan/virtual_stages.hpp"
#include "planner/search/iteration_time/editable_plan.hpp"
#include "planner/search/iteration_time/fit_plan.hpp"
#include "planner/search/iteration_time/tensor_group_slots.hpp"
#include "planner/search/iteration_time/warm_start.hpp"

namespace dtfm::search {
namespace {

class MigrationMinimizer {
 public:
  MigrationMinimizer(const PlanCandidate& candidate, const PlanScore& score, const StopFunction& stop)
      : from_(candidate),
        stop_(stop),
        edited_(candidate, score),
        missing_bytes_(edited_.groups(), score.migration()),
        evaluator_(candidate.job, score) {
    for (int p = 0; p < edited_.pipelines(); ++p) {
      const auto layers = layers_by_stage(candidate.plan.pipelines[at(p)], candidate.job->model.chunks);
      for (int s = 0; at(s) < layers.size(); ++s)
        slots_.push_back({{p, s}, &missing_bytes_.of(layers[at(s)])});
    }
  }

  Plan run() {
    for (bool is_better = true; is_better;) {
      is_better = false;
      for (const AssignedSlot& slot : slots_) is_better = improve_slot(slot) || is_better;
    }
    Plan plan = edited_.plan();
    plan.tensor = tensor_degrees(plan).back();
    return plan;
  }

 private:
  struct AssignedSlot {
    Slot slot;
    const std::vector<double>* missing_bytes;  // by tensor-parallel group: that it must fetch for this slot
  };

  const std::vector<double>& missing_bytes(Slot slot) const {
    return *std::find_if(slots_.begin(), slots_.end(), [&](const AssignedSlot& it) {
              return it.slot == slot;
            })->missing_bytes;
  }

  /// Assigns a group that already holds the slot's state; the previous group moves to the slot of that one.
  /// Returns whether the score allowed it.
  bool improve_slot(const AssignedSlot& assigned) {
    const int now = edited_.group_at(assigned.slot);
    const std::vector<double>& here = *assigned.missing_bytes;
    if (here[at(now)] <= 0) return false;
    for (int home = 0; at(home) < edited_.groups().size(); ++home) {
      if (here[at(home)] > 0) continue;
      if (const std::optional<Slot> other = edited_.slot_of(home)) {
        const std::vector<double>& there = missing_bytes(*other);
        if (there[at(now)] - there[at(home)] >= here[at(now)]) continue;
      }
      if (evaluations_ >= max_evaluations || is_stopped(stop_)) return false;
      ++evaluations_;
      edited_.place(home, assigned.slot);
      const bool is_allowed = edited_.is_edited() && is_as_good();
      is_allowed ? edited_.keep() : edited_.undo();
      if (is_allowed) return true;
    }
    return false;
  }

  /// Tolerates rounding errors, which differ if equal devices swap slots.
  bool is_as_good() {
    constexpr double rounding = 1e-9;
    const PlanCandidate now = evaluator_.evaluate(edited_.plan());
    return now.score <= from_.score * (1 + rounding) && now.deficit_bytes <= from_.deficit_bytes;
  }

  const PlanCandidate& from_;
  const StopFunction& stop_;
  EditablePlan edited_;
  MissingBytes missing_bytes_;
  PlanEvaluator evaluator_;
  std::vector<AssignedSlot> slots_;
  long long evaluations_ = 0;
};

}  // namespace

PlanCandidate minimize_migration(const PlanCandidate& candidate, const PlanScore& score,
                                 const StopFunction& stop) {
  return evaluate_plan(candidate.job, MigrationMinimizer(candidate, score, stop).run(), score);
}

}  // namespace dtfm::search
