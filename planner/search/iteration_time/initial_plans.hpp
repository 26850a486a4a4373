// Initial solutions: shapes, and layouts of tensor-parallel groups in nearness order.
#pragma once

#include <optional>
#include <vector>

#include "planner/search/iteration_time/fit_plan.hpp"

namespace dtfm::search {

/// Numbers that the user fixed.
struct ShapeLimits {
  std::optional<int> stages, replicas;
};

/// Whether there are enough groups, layers and micro-batches for the shape, the schedule can run it, and the
/// limits allow it.
bool is_possible(const DecidedJob& job, const Shape& shape, const ShapeLimits& limits);

/// Possible shapes, ascending. Numbers of stages: all. Numbers of replicas: the smallest, the largest, and
/// some in between, each at most `ratio` times the previous one or one more.
std::vector<Shape> possible_shapes(const DecidedJob& job, const ShapeLimits& limits, double ratio);

/// A subset of the possible shapes: powers of two stages, and numbers of replicas that double.
std::vector<Shape> sparse_shapes(const DecidedJob& job, const ShapeLimits& limits);

/// For every number of stages, the shape that uses as many of the job's tensor-parallel groups as possible.
std::vector<Shape> full_shapes(const DecidedJob& job, const ShapeLimits& limits);

/// The tensor-parallel groups that `plan` uses or could use: those of the job; with mixed degrees, the plan's
/// stages that have devices, and groups of the remaining devices, in nearness order.
std::vector<std::vector<int>> tensor_groups_for_plan(const DecidedJob& job, const Plan& plan);

/// Distributes micro-batches as evenly as possible.
void assign_micro_batches_evenly(const DecidedJob& job, Plan& plan);

/// The best `most` of the layouts tried, best first, with layers and micro-batches fitted to the devices.
/// Layouts use consecutive groups in nearness order from several starts, and the fastest groups; they keep
/// the stages of each pipeline close to each other, the replicas of each stage, or blocks in between.
/// `thorough` tries more starts and all layouts. The shape must be possible. If the score is stopped, returns
/// the best ones so far, or throws WorkStopped if there are none; with `needs_one` there is always one.
std::vector<PlanCandidate> initial_plans(const std::shared_ptr<const DecidedJob>& job, const Shape& shape,
                                         const PlanScore& score, bool thorough, std::size_t most,
                                         bool needs_one = false);

/// Transfers a plan to another job: keeps its devices, and its layers and micro-batches if the job's schedule
/// and micro-batch allow it, and fits the result. Nothing if the tensor degree differs, or the job does not
/// allow the shape or pipelines of different depths.
std::optional<PlanCandidate> transfer_plan(const std::shared_ptr<const DecidedJob>& job,
                                           const PlanCandidate& from, const ShapeLimits& limits,
                                           const PlanScore& score);

}  // namespace dtfm::search
