// Cost of a pipeline without the others: time, memory, egress, and demand for shared links.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/plan/virtual_stages.hpp"
#include "planner/cost/iteration_time/in_flight.hpp"
#include "planner/cost/iteration_time/iteration_model.hpp"
#include "planner/cost/iteration_time/pipeline_time.hpp"

namespace dtfm::cost {

/// Messages of one hop in one direction over a capacity that several messages share.
struct LinkDemand {
  int capacity = 0;  // its id in NetworkCost
  int hop = 0;
  bool is_forward = true;
  double bytes = 0;       // per micro-batch
  double overhead_s = 0;  // of a message, before its first byte
  /// Seconds until the first micro-batch reaches the capacity over any boundary, and from when the last one
  /// has left it to the end of the pipeline. If the schedule computes all forwards first, only messages in
  /// this direction count, and times are relative to their phase.
  double before_s = 0, after_s = 0;
  double pipeline_bytes = 0;           // per micro-batch, over all boundaries in both directions
  bool is_crossed_repeatedly = false;  // by a micro-batch, in one direction or in both
  friend bool operator==(const LinkDemand&, const LinkDemand&) = default;
};

/// Lower bounds in seconds from the start of an iteration.
struct EarliestTimes {
  double end_s = 0;              // of the pipeline
  double first_gradients_s = 0;  // no stage has all gradients of a layer before
};

struct PipelineCost {
  std::vector<std::pair<int, int>> layers;  // by virtual stage
  PipelineWork work;
  PipelineTime time;       // without contention with other pipelines
  EarliestTimes earliest;  // under any contention
  // Optimizer step of a device, over all its chunks, or of its part of them; by virtual stage.
  std::vector<double> update_s;
  std::vector<double> memory_bytes;      // peak memory of a device, by stage
  double deficit_bytes = 0;              // total by which its devices exceed their memory
  double egress_usd = 0;                 // per iteration, without gradient synchronization
  std::vector<LinkDemand> link_demands;  // ordered by hop, forward before backward
};

/// Cost of a pipeline with `flush` micro-batches between two flushes (0: one flush per iteration), whose
/// state `replicas` pipelines partition (IterationModel::replicas_of). Every stage must have as many devices
/// as one of the model's degrees, and devices with known times. Throws Error if the schedule cannot run the
/// pipeline.
PipelineCost pipeline_cost(const IterationModel& model, const Pipeline& pipeline, int replicas, int flush,
                           InFlightByDevice& in_flight);

/// What limits an exchange: a link between two devices, or a capacity that several of its messages share.
struct ExchangeLimit {
  double message_s = 0;         // of each of its messages, one after the other
  double seconds_per_byte = 0;  // of the bytes that a device sends to one of its peers
  friend bool operator==(const ExchangeLimit&, const ExchangeLimit&) = default;

  double seconds(const ExchangedData& data) const {
    return data.messages * message_s + data.bytes * seconds_per_byte;
  }
};

/// The limits of an exchange inside a stage, of which the slowest determines its time; none if compute times
/// contain it. Times of profiles contain only all-reduces inside a host. All-reduces go around the ring of
/// each tensor-parallel group, those between hosts on all channels.
std::vector<ExchangeLimit> exchange_limits(const IterationModel& model, const std::vector<int>& devices,
                                           Exchange kind);
/// Time that the exchanges of a micro-batch within a stage add to one pass. `recomputed`, here and below: the
/// number of first layers that are.
double exchange_s(const IterationModel& model, const std::vector<int>& devices, std::pair<int, int> layers,
                  bool backward, int recomputed);

/// The longest forward time of these devices, the longest backward time, and so on.
ComputeTime slowest_compute(const IterationModel& model, const std::vector<int>& devices,
                            std::pair<int, int> layers, int recomputed);

}  // namespace dtfm::cost
