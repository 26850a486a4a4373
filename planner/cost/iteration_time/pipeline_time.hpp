// Time of a pipeline: warm-up, steady state of its slowest stage or hop, cool-down.
#pragma once

#include <vector>

#include "core/schedule/messaging.hpp"
#include "core/schedule/schedule.hpp"

namespace dtfm::cost {

/// Messages over one stage boundary in one direction. Times are per message.
struct HopTime {
  double occupancy_s = 0;  // of the sender, before it can send the next message
  double latency_s = 0;    // from the end of the occupancy to the arrival
  /// A link that other hops of the pipeline use too, in this or the other direction.
  struct Link {
    int number = 0;     // within the pipeline, from 0
    double busy_s = 0;  // part of the occupancy
    friend bool operator==(const Link&, const Link&) = default;
  };
  std::vector<Link> links = {};
  friend bool operator==(const HopTime&, const HopTime&) = default;
};

/// Work of a pipeline per micro-batch. Stages are in the order in which micro-batches pass them: p devices
/// with v chunks each have p · v stages, of which i, i + p, … are on one device.
struct PipelineWork {
  std::vector<double> forward_s, backward_s;  // by stage
  std::vector<HopTime> forward_hops;          // from stage i to i + 1
  std::vector<HopTime> backward_hops;         // from stage i + 1 to i
  int micro_batches = 0;
  int flush = 0;   // micro-batches between flushes; 0: a single flush at the end
  int chunks = 1;  // stages per device
  Messaging messaging = Messaging::ahead;
  /// By stage, the part of `backward_s` that a schedule which splits the backward delays. Others ignore it.
  std::vector<double> weight_gradient_s = {};
  /// By stage, forwards before the first backward, if the schedule leaves them to plans and the plan has
  /// them. Otherwise pipeline_time chooses them, each at most `max_warm_ups`.
  std::vector<int> warm_ups = {}, max_warm_ups = {};
  /// By stage, the order of passes, if the schedule leaves it to plans and the plan has it.
  std::vector<PassOrder> passes = {};
  /// Number of first layers that are recomputed, by virtual stage. Contained in the times.
  std::vector<int> recomputed = {};
  friend bool operator==(const PipelineWork&, const PipelineWork&) = default;
};

/// Micro-batches between two flushes, of which the last may have fewer. `flush` 0: all.
inline int micro_batches_per_flush(int flush, int micro_batches) {
  return flush > 0 && flush < micro_batches ? flush : micro_batches;
}

/// Number of flushes of an iteration, including the one at its end.
inline int flush_count(int flush, int micro_batches) {
  return flush > 0 && micro_batches > 0 ? (micro_batches - 1) / flush + 1 : 1;
}

/// Seconds from the start of an iteration.
struct PipelineTime {
  std::vector<double> backward_s;   // by stage: end of its last backward
  std::vector<double> gradients_s;  // by stage: arrival of the last gradient that it sends
  double forwards_s = 0;  // all forward phases together, if the schedule computes all forwards first; else 0
  double end_s = 0;       // of the last computation; if the schedule is blocking, of the last message
  double steady_s = 0;    // of one more micro-batch

  /// Delays the end of every stage.
  void delay(double seconds);
};

/// Time per micro-batch of the busiest device or hop: a lower bound of the steady state.
double busiest_s(const PipelineWork& work);

/// Time of a pipeline whose messages contend with those of the same pipeline only. Throws Error if the
/// schedule cannot run (interleaved: micro-batches that are not a multiple of the devices), or if jobs may
/// not name it.
///
/// - gpipe: m messages through a chain of resources (stages and hops) with times t take Σ t + (m − 1) max t
///   plus all latencies, forward and then backward; resource k is done after the sum and the maximum of those
///   up to k.
/// - 1f1b: the order within each stage (Narayanan et al., arXiv 1806.03377) defines a graph of events. Its
///   steady state is the maximum cycle mean: a cycle from stage i to stage j and back, with the hops between
///   them, is shared by j − i + 1 micro-batches. Warm-up and cool-down are the longest paths of the first
///   micro-batches.
/// - eager-1f1b: the same with warm-ups w: the cycle is shared by w(i) − w(j) + 1 micro-batches.
/// - zb-greedy without an order in the plan: the same with a split backward (alternating_passes).
/// - Others, zb-greedy with an order, and the three before if hops share links, and all whose receives are
/// not posted ahead: the first
///   micro-batches are unrolled (`unroll_pipeline`), and the rest is extrapolated from the steady state.
PipelineTime pipeline_time(Schedule schedule, const PipelineWork& work);

}  // namespace dtfm::cost
