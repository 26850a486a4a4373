// What the devices of one stage tell each other: tensor parallelism.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "planner/core/job.hpp"
#include "planner/core/plan.hpp"
#include "simulator/lowering/graph_builder.hpp"

namespace dtfm::sim {

/// The all-reduces inside the stages of a pipeline.
///
/// Layers are cut as Megatron-LM cuts the blocks of a transformer (Shoeybi et al., arXiv 1909.08053, section
/// 3; Narayanan et al., arXiv 2104.04473, section 2.3), those of a model of kind `layers` too: each has two
/// all-reduces of its output in the forward, two in the backward, and with recompute `full` those of the
/// forward again. (With sequence parallelism, Korthikanti et al., arXiv 2205.05198, each of them is a
/// reduce-scatter and an all-gather: the same messages.) The one of the embedding and those of the head are
/// left out; activations inside a stage are not compressed.
///
/// An all-reduce of S bytes goes around the t devices in the order of their ranks, 2 (t − 1) messages of S /
/// t from each to the next. Those of all layers are put together, one transfer from each device to the next,
/// which pays latency and overhead once for every message: n all-reduces over links of B bytes per second
/// take 2 n (t − 1) (latency + overhead + S / (t B)), without the overhead inside a host.
class StageAllReduces {
 public:
  /// The first argument must outlive this.
  StageAllReduces(GraphBuilder& builder, const Job& job, const Pipeline& pipeline);

  /// Those of layers [first, second) of `stage`, which has at least two devices: begin when all devices have
  /// done their part of `computed`, by rank, and are done for all at once. Returns the task that is then
  /// done; `label` is for all tasks, with phase 0 (forward) or 1 (backward).
  int add(int stage, std::pair<int, int> layers, bool backward, std::span<const int> computed,
          TaskLabel label);

 private:
  GraphBuilder& builder_;
  std::vector<double> bytes_;                   // of an all-reduce of each layer
  int backward_count_ = 0;                      // all-reduces of a layer
  std::vector<std::vector<Channel>> channels_;  // [stage][rank] of the sender; of one device none
};

}  // namespace dtfm::sim
