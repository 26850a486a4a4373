// Number of micro-batches that a device holds while it computes.
#pragma once

#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "planner/cost/iteration_time/pipeline_time.hpp"
#include "planner/cost/iteration_time/stage_cost.hpp"

namespace dtfm::cost {

/// Maximum number of micro-batches that the device of stage `stage` of `stages` holds at a time, of
/// `micro_batches` between two flushes. For interleaved: of all its chunks together.
int max_in_flight(Schedule schedule, int stages, int stage, int chunks, int micro_batches);

/// Micro-batches that a device holds, by chunk, at every moment at which its memory may peak.
class InFlightMicroBatches {
 public:
  /// With chunks, `micro_batches` must be a multiple of `devices`.
  InFlightMicroBatches(Schedule schedule, int devices, int device, int chunks, int micro_batches);
  /// Peak memory in bytes of a device with these chunks.
  double max_bytes(std::span<const StageNeeds> chunks) const;
  friend bool operator==(const InFlightMicroBatches&, const InFlightMicroBatches&) = default;

 private:
  struct Moment {
    int computed = 0;       // chunk
    std::vector<int> held;  // micro-batches, by chunk
    friend auto operator<=>(const Moment&, const Moment&) = default;
  };
  std::vector<Moment> moments_;
};

/// Cache of InFlightMicroBatches for pipelines with one schedule.
class InFlightByDevice {
 public:
  InFlightByDevice(Schedule schedule, int chunks) : schedule_(schedule), chunks_(chunks) {}
  const InFlightMicroBatches& of(int devices, int device, int micro_batches);

 private:
  Schedule schedule_;
  int chunks_;
  std::map<std::tuple<int, int, int>, InFlightMicroBatches> known_;
};

}  // namespace dtfm::cost
