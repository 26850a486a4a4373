// Time of a pipeline: warm-up, steady state of its slowest stage or hop, cool-down.
#pragma once

#include <compare>
#include <vector>

#include "planner/core/schedule.hpp"

namespace dtfm::cost {

/// Messages over one stage boundary in one direction. Times are per message.
struct HopTime {
  double occupancy_s = 0;          // of the sender, before it can send the next message
  double latency_s = 0;            // from the end of the occupancy to the arrival
  double shared_s = 0;             // long-run average if links shared with others are the bottleneck
  int shared_link = -1;            // id of that link; equal for hops of a pipeline that cross the same link
  double background_s = 0;         // traffic of others on one such link, per micro-batch
  double link_demand_s = 0;        // part of the occupancy that this link alone requires
  double concurrent_messages = 1;  // upper bound on messages on that link at a time, including this one
  double synchronized_occupancy_s =
      0;  // occupancy under contention with pipelines that send at the same time; 0: the same
  /// Occupancy while the sender sends, or the receiver receives, a message of the other direction; 0: the
  /// same.
  double occupancy_while_sending_s = 0, occupancy_while_receiving_s = 0;
  double overhead_s = 0;  // part of the occupancy before the first byte is sent
  double steady_s() const { return occupancy_s > shared_s ? occupancy_s : shared_s; }
  friend auto operator<=>(const HopTime&, const HopTime&) = default;
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
  /// By stage, the part of `backward_s` that a schedule which splits the backward delays. Others ignore it.
  std::vector<double> weight_gradient_s = {};
  friend auto operator<=>(const PipelineWork&, const PipelineWork&) = default;
};

/// Micro-batches between two flushes, of which the last may have fewer. `flush` 0: all.
inline int micro_batches_per_flush(int flush, int micro_batches) {
  return flush > 0 && flush < micro_batches ? flush : micro_batches;
}

/// Time per micro-batch of the busiest device or hop: a lower bound of the steady state.
double busiest_s(const PipelineWork& work);

/// Seconds of a message on the link of `background_s` if a micro-batch takes `steady_s`. Other traffic takes
/// a share ρ of the link at times that are random relative to this pipeline, so a message that takes x alone
/// takes x / (1 − ρ) on average (Kleinrock, Queueing Systems II, 4.4: processor sharing). The result is at
/// most the sum of both, and at most x times the number of concurrent messages. Few micro-batches are in
/// flight at a time, so this delays the pipeline.
double contended_message_s(const HopTime& hop, double steady_s);

/// Seconds from the start of an iteration.
struct PipelineTime {
  std::vector<double> backward_s;   // by stage: end of its last backward
  std::vector<double> gradients_s;  // by stage: arrival of the last gradient that it sends
  double end_s = 0;     // of the last computation; if the schedule is blocking, of the last message
  double steady_s = 0;  // of one more micro-batch
};

/// Time of a pipeline. Exact without contention, except for `interleaved`, and for `1f1b` with many
/// micro-batches, whose steady state is extrapolated from the first ones. Throws Error if the schedule cannot
/// run (interleaved: micro-batches that are not a multiple of the devices), or if jobs may not name it.
///
/// - gpipe: m messages through a chain of resources (stages and hops) with times t take Σ t + (m − 1) max t
///   plus all latencies, forward and then backward; resource k is done after the sum and the maximum of those
///   up to k. A link that is crossed several times is one resource, from the first crossing to the last.
/// - 1f1b: the order within each stage (Narayanan et al., arXiv 1806.03377) defines a graph of events. Its
///   steady state is the maximum cycle mean: a cycle from stage i to stage j and back, with the hops between
///   them, is shared by j − i + 1 micro-batches. Warm-up and cool-down are the longest paths of the first
///   micro-batches. If messages of both directions contend, the first micro-batches are unrolled
///   (`unroll_pipeline`), and their growth per micro-batch is extrapolated.
/// - interleaved (arXiv 2104.04473): the first micro-batches are unrolled, and their growth is extrapolated.
/// - 1f1b and interleaved: never faster than a link that carries only messages of this pipeline allows.
PipelineTime pipeline_time(Schedule schedule, const PipelineWork& work);

}  // namespace dtfm::cost
