// Plans to begin with: shapes, and units laid out along the nearness order.
#pragma once

#include <optional>
#include <vector>

#include "planner/search/iteration_time/fit_plan.hpp"

namespace dtfm::search {

/// What the user fixed.
struct ShapeLimits {
  std::optional<int> stages, replicas;
};

/// Are there units, layers and micro-batches for it, can the schedule run it, and do the limits allow it?
bool is_possible(const DecidedJob& job, const Shape& shape, const ShapeLimits& limits);

/// Numbers of stages and replicas for which there are units, layers and micro-batches: all of stages; of
/// replicas the least, the most, and such that the next is at most `ratio` times as many, or one more. In
/// ascending order.
std::vector<Shape> possible_shapes(const DecidedJob& job, const ShapeLimits& limits, double ratio);

/// A few of them: of stages the powers of two, of replicas twice as many each.
std::vector<Shape> sparse_shapes(const DecidedJob& job, const ShapeLimits& limits);

/// The units that `plan` stands on and could: those of the job; where degrees are unlike, the plan's stages,
/// but for those without devices, and what is left, in the same order.
std::vector<std::vector<int>> tensor_groups_for_plan(const DecidedJob& job, const Plan& plan);

/// Micro-batches as even as they can be.
void assign_micro_batches_evenly(const DecidedJob& job, Plan& plan);

/// Of the layouts tried, the best few, best first: for stretches of units from several places in the nearness
/// order, and the fastest ones; with each pipeline's stages near each other, each stage's replicas, or blocks
/// between the two. Layers and micro-batches are fitted to the devices. `thorough`: from everywhere,
/// which of few units is always so, and all layouts. The shape must be possible.
std::vector<PlanCandidate> initial_plans(const std::shared_ptr<const DecidedJob>& job, const Shape& shape,
                                         const PlanScore& score, bool thorough, std::size_t most);

/// The devices of `from` under another job; its layers and micro-batches too, where the job's schedule and
/// micro-batches allow it, else even ones. Then fitted. Nothing where stages have another number of devices,
/// or the shape is not possible.
std::optional<PlanCandidate> transfer_plan(const std::shared_ptr<const DecidedJob>& job,
                                           const PlanCandidate& from, const ShapeLimits& limits,
                                           const PlanScore& score);

}  // namespace dtfm::search
