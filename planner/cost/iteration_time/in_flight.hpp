// Number of micro-batches that a device holds while it computes.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "planner/cost/iteration_time/pipeline_time.hpp"
#include "planner/cost/iteration_time/stage_cost.hpp"

namespace dtfm::cost {

/// Micro-batches that a device holds, by chunk, at every moment at which its memory may peak.
class InFlightMicroBatches {
 public:
  /// Of `position.micro_batches` between two flushes. With chunks, they must be a multiple of the devices.
  InFlightMicroBatches(Schedule schedule, const PipelinePosition& position);
  /// Of a device without chunks that holds `most`.
  explicit InFlightMicroBatches(int most = 0) {
    if (most > 0) moments_ = {{0, {most}}};
  }
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
  /// `in_flight`: of the plan, if its schedule leaves the order to plans; without it, as few as under 1F1B.
  const InFlightMicroBatches& of(int devices, int device, int micro_batches,
                                 std::optional<int> in_flight = {});

 private:
  Schedule schedule_;
  int chunks_;
  std::map<std::tuple<int, int, int, std::optional<int>>, InFlightMicroBatches> known_;
};

}  // namespace dtfm::cost
