// Which layers each stage of a chain of stages computes, so that pipelines end as early as possible.
#pragma once

#include <utility>
#include <vector>

#include "planner/cost/iteration_time/iteration_time.hpp"

namespace dtfm::cost {

/// The devices of a pipeline, stage by stage, as many each as its tensor degree.
struct StageChain {
  std::vector<std::vector<int>> devices;
  int micro_batches = 0;
};

struct LayerSplit {
  std::vector<std::pair<int, int>> layers;  // by stage, at least one each
  double time_s = 0;                        // as `best_layer_split` defines it
  double lower_bound_s = 0;                 // no split takes less; time_s where that is proven optimal
  bool fits = true;                         // in the memory of every device
  int peak_memory_stage = 0;                // where it does not: the stage that lacks most,
  double memory_utilization = 0;            // bytes needed ÷ capacity there
};

/// The split with the least time of all that fit memory, the same for all `pipelines`, which are as deep as
/// each other. Where none fits, the split whose fullest stage is the least full.
///
/// The time of m micro-batches in k rounds (flush) is, of stations (stages and hops, whose bytes depend on
/// the cut) that take f forward and b backward when nothing competes:
/// - gpipe: k Σ (f + b) + (m − k) (max f + max b), all latencies in the sum. Exactly `pipeline_time`.
/// - 1f1b: k Σ (f + b) + (m − k) · the largest of: f + b of a stage; a hop; the mean of f + b, with the hops
///   and latencies between, of the first stages up to any. `pipeline_time` also takes means of stages in the
///   middle.
/// - interleaved: as 1f1b without these means, each device's layers taken to be one piece that is cut into
///   chunks, at least one layer each; its memory too, which therefore has to be checked again.
/// Of several pipelines every Σ and max has the largest of their terms instead, each weighted with its own k
/// and m − k: no pipeline takes longer, and where one of them is the slowest everywhere (always so with equal
/// devices, links and micro-batches) the optimum is that of the slowest pipeline.
///
/// Throws Error where there are fewer layers than stages (and chunks).
LayerSplit best_layer_split(const IterationModel& model, const std::vector<StageChain>& pipelines);

}  // namespace dtfm::cost
