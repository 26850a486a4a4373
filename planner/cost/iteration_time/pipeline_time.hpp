// How long a pipeline takes: its fill, the steady state that its slowest stage or hop bounds, its drain.
#pragma once

#include <compare>
#include <vector>

#include "planner/core/schedule.hpp"

namespace dtfm::cost {

/// Messages over one boundary of stages, in one direction.
struct HopTime {
  double occupancy_s = 0;  // of the sender by a message: nothing follows it before
  double latency_s = 0;    // until it is there
  double shared_s = 0;     // a message, in the long run, where links that others use too are the limit
  int shared_link = -1;  // which of these that is; hops of a pipeline with the same number pass the same one
  double background_s = 0;         // what others send over one of these links meanwhile
  double link_demand_s = 0;        // of the occupancy, what that link alone would ask for
  double concurrent_messages = 1;  // at most so many messages are on that link at a time, this one among them
  double synchronized_occupancy_s =
      0;  // occupancy among the messages of pipelines that send at the same time; 0: the same
  /// Occupancy while the sender sends, or the receiver gets, a message of the other direction; 0: the same.
  double occupancy_while_sending_s = 0, occupancy_while_receiving_s = 0;
  double overhead_s = 0;  // of the occupancy, before the first byte moves
  double steady_s() const { return occupancy_s > shared_s ? occupancy_s : shared_s; }
  friend auto operator<=>(const HopTime&, const HopTime&) = default;
};

/// Stages in the order in which micro-batches pass them; of p devices with v chunks each there are p · v, the
/// stages i, i + p, … on one device. All times are those of a micro-batch.
struct PipelineWork {
  std::vector<double> forward_s, backward_s;  // by stage
  std::vector<HopTime> forward_hops;          // from stage i to i + 1
  std::vector<HopTime> backward_hops;         // from stage i + 1 to i
  int micro_batches = 0;
  int flush = 0;   // micro-batches after which the pipeline drains; 0: once, at the end
  int chunks = 1;  // stages of a device
  friend auto operator<=>(const PipelineWork&, const PipelineWork&) = default;
};

/// Micro-batches between two drains; the last ones may be fewer. `flush` 0: all.
inline int micro_batches_per_flush(int flush, int micro_batches) {
  return flush > 0 && flush < micro_batches ? flush : micro_batches;
}

/// Of one device or hop: no micro-batch takes less in the long run.
double busiest_s(const PipelineWork& work);

/// What a message takes on the link of `background_s`, where a micro-batch takes `steady_s`. What others send
/// there, a share ρ of its time, comes at random moments of this pipeline's: x ÷ (1 − ρ) in the mean
/// (Kleinrock, Queueing Systems II, 4.4: processor sharing), where it would take x alone, and at most as long
/// as all together, or as its equal share among all that can be there. Few micro-batches are in flight at a
/// time, so this holds up the pipeline.
double contended_message_s(const HopTime& hop, double steady_s);

/// From the start of an iteration.
struct PipelineTime {
  std::vector<double> backward_s;   // by stage: its last backward is done
  std::vector<double> gradients_s;  // by stage: and what it sends has arrived
  double end_s = 0;                 // of the last computation
  double steady_s = 0;              // that one micro-batch more would take
};

/// Without competition exact but for `interleaved` and `1f1b` with many micro-batches, whose steady state is
/// taken from the first ones. Throws Error where the schedule cannot be run (interleaved: micro-batches that
/// are not a multiple of the devices), and for a schedule that jobs may not name.
///
/// - gpipe: m messages through a line of stations (stages and hops) with times t take Σ t + (m − 1) max t and
///   all latencies, forward and then backward; the station k is done after the sum and the maximum of those
///   up to k. A link that is passed several times is one station, from the first passage to the last.
/// - 1f1b: the order of each stage (Narayanan et al., arXiv 1806.03377) makes a graph of events. Its steady
///   state is the largest mean of its cycles: those from stage i to stage j and back, with the hops between
///   them, are shared by j − i + 1 micro-batches. Fill and drain are the longest paths of the first
///   micro-batches. Where messages of both directions compete, these are played (`unroll_pipeline`), and the
///   growth per micro-batch goes on.
/// - interleaved (arXiv 2104.04473): the first micro-batches are played; the growth per micro-batch goes on.
/// - 1f1b and interleaved, where a link carries messages of this pipeline alone: never less than these take.
PipelineTime pipeline_time(Schedule schedule, const PipelineWork& work);

}  // namespace dtfm::cost
