// Lower bounds on the times of given pipelines and plans, as simulated. The enumeration skips plans whose
// bound is not below the time of a plan that it already has.
#pragma once

#include <vector>

#include "planner/cost/iteration_time/iteration_time.hpp"

namespace dtfm::cost {

/// Seconds from the start of an iteration.
struct PipelineBound {
  std::vector<double> gradients_s;  // by stage: its last backward pass, without delayed weight gradients
  double end_s = 0;                 // of the last computation
};

/// Bound of a pipeline. All times are 0 without micro-batches. Here and below, every stage has one device.
PipelineBound pipeline_bound(const IterationModel& model, const Pipeline& pipeline);

/// Least time from the last backward pass of these stages, which all hold `layers`, until their devices have
/// synchronized the gradients of these layers and updated them. If messages share links, synchronization is
/// not counted.
double min_sync_s(const IterationModel& model, const std::vector<const Stage*>& replicas,
                  std::pair<int, int> layers);

/// The same for the first bucket of layers, from the last backward pass of the first stages.
double min_first_sync_s(const IterationModel& model, const Plan& plan);

/// Upper bound on the micro-batches of any pipeline if an iteration takes at most `limit_s`: with more, the
/// traffic of zero2 or zero3 alone would take longer. The largest int without partitioned gradients.
int max_micro_batches(const IterationModel& model, const Plan& plan, double limit_s);

/// Bound on the iteration time of a plan whose pipelines have these bounds, in the order of the plan.
double min_iteration_s(const IterationModel& model, const Plan& plan,
                       const std::vector<const PipelineBound*>& pipelines);

}  // namespace dtfm::cost
