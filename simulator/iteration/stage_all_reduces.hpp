// Communication between the devices of one stage: tensor parallelism.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "core/plan/job.hpp"
#include "core/plan/plan.hpp"
#include "simulator/lowering/graph_builder.hpp"

namespace dtfm::sim {

/// The all-reduces inside the stages of a pipeline.
///
/// Every layer is divided as Megatron-LM divides the blocks of a transformer (Shoeybi et al., arXiv
/// 1909.08053, section 3; Narayanan et al., arXiv 2104.04473, section 2.3), also in models of kind `layers`:
/// each has two all-reduces of its output in the forward, two in the backward, and with recompute `full`
/// those of the forward once more. (With sequence parallelism, Korthikanti et al., arXiv 2205.05198, each
/// all-reduce becomes a reduce-scatter and an all-gather, which send the same messages.) The all-reduces of
/// the embedding and of the head are not modelled. Activations inside a stage are not compressed.
///
/// Every all-reduce is a ring over the t devices host by host: of S bytes, each device sends 2
/// (t − 1) messages of S / t bytes to the next. The messages of all layers are merged into one transfer per
/// device, which takes latency and overhead of every message: n all-reduces over links of B bytes per second
/// take 2 n (t − 1) (latency + overhead + S / (t B)), with the local overhead inside a host. Messages from
/// one host to another use all channels (HostChannels).
class StageAllReduces {
 public:
  /// `builder` must outlive this.
  StageAllReduces(GraphBuilder& builder, const Job& job, const ExecutionConfig& execution,
                  const Pipeline& pipeline);

  /// Adds the all-reduces of layers [first, second) of `stage`, which must have at least two devices. They
  /// begin when all tasks of `computed`, one per rank, have ended. Returns the task that ends when all
  /// devices have the results. All new tasks get `label`, with phase 0 or 2 (forward) or 1 or 3 (backward).
  int add(int stage, std::pair<int, int> layers, bool backward, std::span<const int> computed,
          TaskLabel label);

 private:
  GraphBuilder& builder_;
  std::vector<double> bytes_;  // [layer]: size of one all-reduce
  int backward_count_ = 0;     // all-reduces per layer in the backward
  // [stage][rank of the sender][part of the message]; empty for single devices.
  std::vector<std::vector<std::vector<Channel>>> channels_;
};

}  // namespace dtfm::sim
