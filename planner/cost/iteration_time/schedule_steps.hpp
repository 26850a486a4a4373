// In which order a device computes its micro-batches, and what it holds of them meanwhile.
#pragma once

#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "planner/cost/iteration_time/pipeline_time.hpp"
#include "planner/cost/iteration_time/stage_cost.hpp"

namespace dtfm::cost {

struct ScheduleStep {
  bool forward = true;
  int stage = 0, message = 0;  // computed stage; micro-batch
};

/// What device `device` of `devices` computes under 1f1b or interleaved, one after the other: some forwards
/// ahead, then one forward and one backward in turn. With chunks, `devices` micro-batches through each chunk
/// in turn (arXiv 2104.04473, 2.2).
std::vector<ScheduleStep> schedule_steps(Schedule schedule, int devices, int device, int chunks,
                                         int micro_batches);

/// Micro-batches that the device of stage `stage` of `stages` holds at most at a time, of `micro_batches`
/// between two drains. Of interleaved: of all its chunks together.
int max_in_flight(Schedule schedule, int stages, int stage, int chunks, int micro_batches);

/// What a device holds, chunk by chunk, at all moments that can be those at which it holds most.
class InFlightMicroBatches {
 public:
  /// With chunks, micro-batches are a multiple of the devices.
  InFlightMicroBatches(Schedule schedule, int devices, int device, int chunks, int micro_batches);
  /// The most bytes at a time of a device with these chunks.
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

/// The same for all devices of pipelines with one schedule, worked out once each.
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
