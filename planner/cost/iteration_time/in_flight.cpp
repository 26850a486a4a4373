#include "planner/cost/iteration_time/in_flight.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/index.hpp"

namespace dtfm::cost {

InFlightMicroBatches::InFlightMicroBatches(Schedule schedule, const PipelinePosition& position) {
  if (position.micro_batches == 0) return;
  if (position.chunks == 1) {
    moments_ = {{0, {traits(schedule).in_flight(position)}}};
    return;
  }
  std::vector<int> held(at(position.chunks));
  using Kind = Operation::Kind;
  DTFM_ASSERT(!traits(schedule).splits_backward);  // no schedule with chunks does
  for (const auto& [kind, chunk, _] : operation_order(schedule, position, /*flush=*/0)) {
    if (kind == Kind::forward) ++held[at(chunk)];
    moments_.push_back({chunk, held});
    if (kind == Kind::backward) --held[at(chunk)];
  }
  // Sorted so that a moment comes before all those that it dominates, in which no chunk holds more.
  std::sort(moments_.begin(), moments_.end(), std::greater<>());
  const auto has_no_less = [](const Moment& a, const Moment& b) {
    return a.computed == b.computed &&
           std::equal(a.held.begin(), a.held.end(), b.held.begin(), std::greater_equal<>());
  };
  std::vector<Moment> most;
  for (const Moment& it : moments_)
    if (std::none_of(most.begin(), most.end(), [&](const Moment& other) { return has_no_less(other, it); }))
      most.push_back(it);
  moments_ = std::move(most);
}

double InFlightMicroBatches::max_bytes(std::span<const StageNeeds> chunks) const {
  double state = 0, most = 0;
  for (const StageNeeds& chunk : chunks) state += chunk.state;
  for (const Moment& moment : moments_) {
    double bytes = chunks[at(moment.computed)].working;
    for (std::size_t i = 0; i < chunks.size(); ++i) bytes += moment.held[i] * chunks[i].per_micro_batch;
    most = std::max(most, bytes);
  }
  return state + most;
}

namespace {

/// The warm-up is shorter than two rounds of `devices` micro-batches through all chunks, and every later
/// round repeats the one before, so the peak with these micro-batches is the peak with any larger number.
int enough_micro_batches(int devices, int chunks, int micro_batches) {
  constexpr int rounds = 4;
  return chunks == 1 ? micro_batches : std::min((micro_batches + devices - 1) / devices, rounds) * devices;
}

}  // namespace

const InFlightMicroBatches& InFlightByDevice::of(int devices, int device, int micro_batches,
                                                 std::optional<int> in_flight) {
  const ScheduleTraits& schedule = traits(schedule_);
  const bool is_planned = schedule.has_planned_warm_up || schedule.has_planned_passes;
  const PipelinePosition position{devices, device, chunks_,
                                  enough_micro_batches(devices, chunks_, micro_batches)};
  const auto [known, is_new] = known_.try_emplace({devices, device, position.micro_batches, in_flight});
  if (is_new)
    known->second =
        is_planned
            ? InFlightMicroBatches(std::min(position.micro_batches, in_flight.value_or(devices - device)))
            : InFlightMicroBatches(schedule_, position);
  return known->second;
}

}  // namespace dtfm::cost
