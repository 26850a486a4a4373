// Finds the bottleneck of a plan: which part of the iteration and which resource determine its time, and
// which device is closest to running out of memory.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "planner/cost/iteration_time/iteration_time.hpp"

namespace dtfm::cost {

/// A resource of a pipeline: the compute of a stage's devices (all chunks), or the hop from the stage to the
/// next one, in both directions.
struct PipelineResource {
  bool is_hop = false;
  int pipeline = -1, stage = -1;
  /// Critical-path share of the pipeline's time, s: how much longer the pipeline takes if the resource
  /// becomes slower by a small factor, divided by that factor. For the slowest resource of a full pipeline
  /// that is all the time it is busy, for others their part of the pipeline fill. Of several equally slow
  /// resources each has its full share, so shares may add up to more than the pipeline's time.
  double seconds = 0;
  double latency_s = 0;  // part of `seconds` that depends on the latency of a hop
};

/// Seconds of an iteration, split into consecutive parts as seen from the slowest pipeline.
struct IterationParts {
  double fill_s = 0;    // warm-up and cool-down: the first micro-batch after every flush
  double steady_s = 0;  // the other micro-batches
  double sync_s = 0, update_s = 0, overhead_s = 0;  // exposed: what the preceding parts do not hide
  double sum() const { return fill_s + steady_s + sync_s + update_s + overhead_s; }
};

/// Where the seconds of an iteration go, as seen from the busiest stage of the slowest pipeline. They add up
/// to the iteration.
struct TimeShares {
  double compute_s = 0;   // of the busiest stage
  double messages_s = 0;  // exposed communication of the pipelines: what remains if all their messages arrive
                          // at once is computation and bubble
  double bubble_s = 0;    // the busiest stage waits for others although messages arrive at once
  double sync_s = 0, update_s = 0, overhead_s = 0;  // as in IterationParts
  double exchange_s =
      0;  // part of `compute_s`: exchanges inside the stage, such as tensor-parallel all-reduces
};

/// Critical-path shares of all stages, and of all hops, in the slowest pipeline. Its time is a homogeneous
/// function of theirs, so the two add up to it (Euler), except where links are shared or two paths are
/// equally long.
struct CriticalPathShares {
  double compute_s = 0, sending_s = 0;
};

/// A part of the iteration, and what its removal alone would save.
struct Bottleneck {
  enum class Kind { stages, hops, bubble, gradient_sync, update, overhead };
  Kind kind = Kind::stages;
  double seconds = 0;  // that the iteration would be shorter
  double share = 0;    // of the iteration time
};
inline constexpr std::size_t bottleneck_kinds = 6;
std::string_view name_of(Bottleneck::Kind kind);

struct PlanBottleneck {
  /// The part whose removal alone would save most.
  Bottleneck dominant;
  /// Of every kind, in the order of the enum: with infinitely fast devices; with messages between stages that
  /// arrive at once; with pipelines that are always in the steady state; without exposed synchronization,
  /// optimizer step or overhead. Everything else takes as long as now. Savings do not add up: without
  /// computations there is no bubble, either.
  std::array<Bottleneck, bottleneck_kinds> savings;
  TimeShares shares;
  /// Resource of the slowest pipeline with the largest critical-path share: a hop if messages dominate, a
  /// stage if computations or the bubble do, otherwise whichever kind has the larger share.
  PipelineResource resource;
  IterationParts parts;
  CriticalPathShares critical_path;
  /// The device whose memory is used most, relative to its capacity; empty if no GPU's memory is known.
  std::optional<DeviceMemory> peak_memory;
};

PlanBottleneck find_bottleneck(const IterationModel& model, const Plan& plan);

/// An iteration with at least this share of exposed communication is not compute-bound.
inline constexpr double max_compute_bound_exposed_share = 0.05;

/// Returns whether exposed communication, between stages and of gradients, takes less than
/// `max_compute_bound_exposed_share` of the iteration.
bool is_compute_bound(const IterationModel& model, const Plan& plan);

}  // namespace dtfm::cost
