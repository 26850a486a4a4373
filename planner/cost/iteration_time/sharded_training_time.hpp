// Time of an iteration of data parallelism with partitioned gradients: zero2 and zero3.
#pragma once

#include "core/plan/plan.hpp"
#include "planner/cost/iteration_time/iteration_model.hpp"

namespace dtfm::cost {

/// Times from the start of an iteration, in seconds.
struct ShardedTrainingTime {
  double computed_s = 0;  // end of the last computation before the optimizer step
  double end_s = 0;       // of the optimizer steps and, with zero2, the all-gather of parameters
  double update_s = 0;    // duration of the longest optimizer step
  double egress_usd = 0;  // of all collectives
};

/// A recurrence over micro-batches and layers. A device computes one layer after the other, and one
/// collective of each kind follows the other; over shared links, collectives of both kinds follow each other.
/// All devices take part in a collective at the time of the last of them.
///   reduce-scatter  of the gradients of a layer, after every backward pass of it
///   all-gather      zero3: of the parameters of a layer before every pass of it, as soon as the pass of the
///                   layer before it begins; zero2: of all parameters, after the optimizer steps
/// After `exact_rounds` micro-batches, every further one takes as long as the last of these.
///
/// Every pipeline of the plan is a single stage on a single device (check_optimizer_sharding). `recomputed`:
/// the number of first layers that are, by pipeline.
ShardedTrainingTime sharded_training_time(const IterationModel& model, const Plan& plan,
                                          std::span<const int> recomputed);
inline constexpr int exact_rounds = 16;

/// Lower bound on the seconds for which collectives occupy the slowest hop.
struct ShardedTraffic {
  double per_round_s = 0;  // round i is the i-th micro-batch of every device
  double after_s = 0;      // zero2: the all-gather of parameters at the end
};

/// Valid for any number of micro-batches on the devices of the plan. With zero3, reduce-scatters and
/// all-gathers may overlap, so that the longer of the two counts and not their sum.
ShardedTraffic min_sharded_traffic(const IterationModel& model, const Plan& plan);

}  // namespace dtfm::cost
