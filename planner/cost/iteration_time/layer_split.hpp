// Splits the layers among the stages of a pipeline so that pipelines end as early as possible.
#pragma once

#include <utility>
#include <vector>

#include "planner/cost/iteration_time/iteration_time.hpp"

namespace dtfm::cost {

/// Devices of a pipeline by stage; a stage has as many as its tensor degree.
struct StageChain {
  std::vector<std::vector<int>> devices;
  int micro_batches = 0;
};

struct LayerSplit {
  std::vector<std::pair<int, int>> layers;  // by stage, at least one each
  double time_s = 0;                        // as `best_layer_split` defines it
  double lower_bound_s = 0;                 // no split takes less; equals time_s if that is proven optimal
  bool fits = true;                         // in the memory of every device
  int peak_memory_stage = 0;      // if it does not fit: the stage with the highest memory utilization
  double memory_utilization = 0;  // of that stage: bytes needed / capacity
};

/// The split with the least time among those that fit in memory, the same for all `pipelines`, which must
/// have equally many stages. If none fits, the split with the lowest peak memory utilization.
///
/// The time of m micro-batches in k rounds (flush) is defined over resources (stages, and hops whose bytes
/// depend on the split) that take f forward and b backward without contention:
/// - gpipe: k Σ (f + b) + (m − k) (max f + max b), with all latencies in the sum. Equal to `pipeline_time`.
/// - 1f1b: k Σ (f + b) + (m − k) · the maximum of: f + b of a stage; a hop; the mean of f + b, with the hops
///   and latencies between, of the first stages up to any. `pipeline_time` also takes means of inner stages.
/// - interleaved: as 1f1b without these means. The layers of a device count as one range that is divided into
///   chunks of at least one layer each, for memory too, which therefore has to be checked again.
/// With several pipelines, every Σ and max takes the largest of their terms instead, each weighted with its
/// own k and m − k. No pipeline takes longer than that, and if one of them is the slowest in every term
/// (always so with equal devices, links and micro-batches), the optimum is that of the slowest pipeline.
///
/// `replicas` of the plan partition the state of every layer, if the job's optimizer is sharded.
///
/// Throws Error if there are fewer layers than stages (times chunks).
LayerSplit best_layer_split(const IterationModel& model, const std::vector<StageChain>& pipelines,
                            int replicas = 1);

}  // namespace dtfm::cost
