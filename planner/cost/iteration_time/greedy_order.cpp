#include "planner/cost/iteration_time/greedy_order.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/index.hpp"
#include "core/base/infinity.hpp"
#include "planner/cost/iteration_time/warm_up.hpp"

namespace dtfm::cost {
namespace {

using Kind = Operation::Kind;

/// Lets all devices of a pipeline compute, always continuing with the earliest event. Messages have the times
/// of their hops, and wait for those before them in the same direction.
class GreedyScheduler {
 public:
  GreedyScheduler(const PipelineWork& work, const ZeroBubbleLimits& limits, int micro_batches)
      : work_(work),
        limits_(limits),
        micro_batches_(micro_batches),
        events_s_(work.forward_s.size(), 0),
        devices_(work.forward_s.size()),
        passes_(work.forward_s.size()) {
    devices_.front().forward_inputs_s.assign(at(micro_batches), 0);
    for (PassOrder& it : passes_) it.reserve(3 * at(micro_batches));
  }

  std::vector<PassOrder> run() {
    for (;;) {
      const auto next = std::min_element(events_s_.begin(), events_s_.end());
      if (*next == infinity) return std::move(passes_);
      const auto stage = static_cast<std::size_t>(next - events_s_.begin());
      if (devices_[stage].is_busy) end_pass(stage, *next);
      begin_pass(stage, *next);
    }
  }

 private:
  struct Device {
    std::vector<double> forward_inputs_s, backward_inputs_s;  // arrivals, by micro-batch
    int forwards = 0, backwards = 0, weight_gradients = 0;    // done
    bool is_busy = false;
    Kind kind = Kind::forward;                             // of the present or last pass
    double forward_channel_s = 0, backward_channel_s = 0;  // end of the last message to either side
  };

  double seconds(std::size_t stage, Kind kind) const {
    const double weight_gradient_s = work_.weight_gradient_s[stage];
    if (kind == Kind::forward) return work_.forward_s[stage];
    return kind == Kind::weight_gradient ? weight_gradient_s : work_.backward_s[stage] - weight_gradient_s;
  }

  static double arrival(double& channel_s, double now_s, const HopTime& hop) {
    channel_s = std::max(channel_s, now_s) + hop.occupancy_s;
    return channel_s + hop.latency_s;
  }

  void receive(std::size_t stage, std::vector<double> Device::*inputs_s, double arrival_s) {
    Device& device = devices_[stage];
    (device.*inputs_s).push_back(arrival_s);
    if (!device.is_busy) events_s_[stage] = std::min(events_s_[stage], arrival_s);
  }

  void end_pass(std::size_t stage, double now_s) {
    Device& device = devices_[stage];
    device.is_busy = false;
    if (device.kind == Kind::weight_gradient) {
      ++device.weight_gradients;
    } else if (device.kind == Kind::backward) {
      ++device.backwards;
      if (stage > 0)
        receive(stage - 1, &Device::backward_inputs_s,
                arrival(device.backward_channel_s, now_s, work_.backward_hops[stage - 1]));
    } else {
      ++device.forwards;
      if (stage + 1 == devices_.size())
        device.backward_inputs_s.push_back(now_s);
      else
        receive(stage + 1, &Device::forward_inputs_s,
                arrival(device.forward_channel_s, now_s, work_.forward_hops[stage]));
    }
  }

  static double next_input_s(const std::vector<double>& inputs_s, int done) {
    return at(done) < inputs_s.size() ? inputs_s[at(done)] : infinity;
  }

  void begin_pass(std::size_t stage, double now_s) {
    Device& device = devices_[stage];
    const bool may_forward =
        device.forwards < micro_batches_ && device.forwards - device.backwards <= limits_.warm_ups[stage] &&
        device.forwards - device.weight_gradients <= limits_.warm_ups[stage] + limits_.delays[stage];
    const double backward_s = next_input_s(device.backward_inputs_s, device.backwards),
                 forward_s = may_forward ? next_input_s(device.forward_inputs_s, device.forwards) : infinity,
                 input_s = std::min(backward_s, forward_s);
    if (backward_s <= now_s)
      device.kind = Kind::backward;
    else if (forward_s <= now_s)
      device.kind = Kind::forward;
    else if (device.backwards > device.weight_gradients)
      device.kind = Kind::weight_gradient;
    else {
      events_s_[stage] = input_s;
      return;
    }
    device.is_busy = true;
    passes_[stage].push_back(device.kind);
    events_s_[stage] = now_s + seconds(stage, device.kind);
  }

  const PipelineWork& work_;
  const ZeroBubbleLimits& limits_;
  int micro_batches_;
  std::vector<double> events_s_;  // by stage: end of its pass, or the next input that it waits for
  std::vector<Device> devices_;
  std::vector<PassOrder> passes_;
};

/// Micro-batches until the order repeats: three times as many as a device may hold, as under eager-1f1b.
int ordered_micro_batches(const PipelineWork& work, const ZeroBubbleLimits& limits) {
  long long most = 0;
  for (std::size_t stage = 0; stage < limits.warm_ups.size(); ++stage)
    most = std::max(most, limits.warm_ups[stage] + 1LL + limits.delays[stage]);
  return static_cast<int>(
      std::min<long long>(micro_batches_per_flush(work.flush, work.micro_batches), 3 * (most + 2)));
}

PassOrder alternating_order(int warm_up, int delay, int micro_batches) {
  PassOrder passes(at(std::min(warm_up, micro_batches)), Kind::forward);
  passes.reserve(3 * at(micro_batches));
  for (int i = 0; i < micro_batches; ++i) {
    if (i + warm_up < micro_batches) passes.push_back(Kind::forward);
    passes.push_back(Kind::backward);
    if (i >= delay) passes.push_back(Kind::weight_gradient);
  }
  passes.resize(3 * at(micro_batches), Kind::weight_gradient);
  return passes;
}

/// The order of zb-h1, by stage; empty if it does not fit in memory.
std::vector<PassOrder> zero_bubble_h1_passes(const PipelineWork& work) {
  const auto devices = static_cast<int>(work.forward_s.size());
  const int micro_batches =
      std::min(micro_batches_per_flush(work.flush, work.micro_batches), 3 * (devices + 2));
  std::vector<PassOrder> result;
  for (int device = 0; device < devices; ++device) {
    const PipelinePosition position{devices, device, 1, micro_batches};
    if (zero_bubble_h1_in_flight(position) > work.max_warm_ups[at(device)] + 1) return {};
    PassOrder& passes = result.emplace_back();
    for (const Operation& it : zero_bubble_h1_order(position)) passes.push_back(it.kind);
  }
  return result;
}

}  // namespace

ZeroBubbleLimits zero_bubble_limits(const PipelineWork& work, double scale) {
  ZeroBubbleLimits limits;
  double returns_s = 0;  // of the last gradient from this stage to the first
  limits.warm_ups = choose_warm_ups(work, scale, /*splits_backward=*/true);
  const std::vector<int>& warm_ups = limits.warm_ups;
  for (std::size_t stage = 0; stage < warm_ups.size(); ++stage) {
    const double more = std::max(0, std::min(work.max_warm_ups[stage], work.micro_batches) - warm_ups[stage]),
                 weight_gradient_s = work.weight_gradient_s[stage];
    limits.delays.push_back(weight_gradient_s > 0
                                ? static_cast<int>(std::min(more, std::ceil(returns_s / weight_gradient_s)))
                                : 0);
    if (stage + 1 == warm_ups.size()) break;
    const HopTime& back = work.backward_hops[stage];
    returns_s += work.backward_s[stage] - weight_gradient_s + back.occupancy_s + back.latency_s;
  }
  return limits;
}

std::vector<PassOrder> alternating_passes(const PipelineWork& work, const ZeroBubbleLimits& limits) {
  std::vector<PassOrder> passes;
  for (std::size_t stage = 0; stage < limits.warm_ups.size(); ++stage)
    passes.push_back(
        alternating_order(limits.warm_ups[stage], limits.delays[stage], ordered_micro_batches(work, limits)));
  return passes;
}

std::vector<PassOrder> greedy_passes(const PipelineWork& work, const ZeroBubbleLimits& limits) {
  return GreedyScheduler(work, limits, ordered_micro_batches(work, limits)).run();
}

std::vector<PassOrder> search_passes(const PipelineWork& work) {
  // Greedy orders fit exactly these times. With computations 10 to 15 % longer or shorter, they are 1 %
  // slower than alternating ones in the mean over random pipelines.
  constexpr double greedy_margin = 1.01;
  // Other micro-batches would repeat a part of it, of which nothing is known.
  const int all = micro_batches_per_flush(work.flush, work.micro_batches);
  PipelineWork planned = work;
  std::vector<PassOrder> best;
  double best_s = infinity;
  const auto consider = [&](std::vector<PassOrder> passes, double margin) {
    planned.passes = std::move(passes);
    const double seconds = margin * pipeline_time(Schedule::zero_bubble_greedy, planned).end_s;
    if (!(seconds < best_s)) return;
    best_s = seconds;
    best = planned.passes;
  };
  for (const double scale : {usual_scale, 1.0, 1.25, 1.5, 3.0}) {
    const ZeroBubbleLimits limits = zero_bubble_limits(work, scale);
    consider(alternating_passes(work, limits), 1);
    if (ordered_micro_batches(work, limits) == all) consider(greedy_passes(work, limits), greedy_margin);
  }
  if (std::vector<PassOrder> passes = zero_bubble_h1_passes(work); !passes.empty())
    consider(std::move(passes), 1);
  return best;
}

}  // namespace dtfm::cost
