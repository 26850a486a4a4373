// What the time of an iteration hangs on, and what fills the memory.
#pragma once

#include <optional>
#include <vector>

#include "planner/cost/iteration_time/iteration_time.hpp"

namespace dtfm::cost {

/// A stage of a pipeline with what its devices compute (of all chunks), or the hop from it to the next stage,
/// there and back.
struct PipelineResource {
  bool is_hop = false;
  int pipeline = -1, stage = -1;
  /// Of the pipeline's time, what hangs on it: what is added when it becomes slower by a small share, divided
  /// by that share. Of the slowest station of a full pipeline that is all its time; of the others, their part
  /// of the fill. All that bind have theirs, so several stations may have more than the pipeline together.
  double seconds = 0;
  double latency_s = 0;  // of these, on the latency of a hop
};

/// All of one pipeline: its stages, then its hops.
std::vector<PipelineResource> pipeline_resources(IterationTimer& timer, int pipeline);

/// An iteration's seconds, one part after the other, seen from the slowest pipeline.
struct IterationParts {
  double fill_s = 0;    // fill and drain: of every round, the first micro-batch
  double steady_s = 0;  // micro-batches after it
  double sync_s = 0, update_s = 0, overhead_s = 0;  // what is not hidden by what is before
  double sum() const { return fill_s + steady_s + sync_s + update_s + overhead_s; }
};

/// Of the slowest pipeline's seconds, what hangs on all its stages, and on all its hops. Its time is
/// proportional to theirs, so they add up to it (Euler), but where links are shared or two ways are equally
/// long.
struct CriticalPathShares {
  double compute_s = 0, sending_s = 0;
};

struct Bottleneck {
  enum class Kind { stages, hops, gradient_sync, update, overhead };
  Kind kind = Kind::stages;
  double seconds = 0;
  double share = 0;  // of the iteration
};

/// The device with the least room.
struct PeakMemoryDevice {
  DeviceMemory memory;
  double state = 0;  // bytes of it: weights, gradients, optimizer; the rest are activations and buffers
};

struct PlanBottleneck {
  Bottleneck dominant;  // on which most hangs: all stages of the slowest pipeline, all its hops, or another part
  PipelineResource resource;   // of the slowest pipeline: where most hangs on; a stage or hop if these bind
  IterationParts parts;
  CriticalPathShares critical_path;
  std::optional<PeakMemoryDevice> peak_memory;  // nothing: no GPU's memory is known
};

PlanBottleneck find_bottleneck(IterationTimer& timer);

/// More than this share of an iteration in exchanges is not compute-bound.
inline constexpr double max_compute_bound_sync_share = 0.05;

/// In every pipeline more hangs on stages than on hops, and exchanges take less than that share of the
/// iteration.
bool is_compute_bound(IterationTimer& timer);

}  // namespace dtfm::cost
