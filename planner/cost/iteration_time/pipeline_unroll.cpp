#include "planner/cost/iteration_time/pipeline_unroll.hpp"

#include <algorithm>
#include <limits>

#include "planner/core/index.hpp"
#include "planner/core/infinity.hpp"
#include "planner/core/schedule.hpp"

namespace dtfm::cost {
namespace {

using Kind = Operation::Kind;

/// A computation, or the message with its result.
struct Step {
  Kind kind = Kind::forward;
  int stage = 0, message = 0;  // stage in the order of computation; micro-batch
  bool is_forward() const { return kind == Kind::forward; }
};

class PipelineUnroll {
 public:
  PipelineUnroll(Schedule schedule, const PipelineWork& work)
      : work_(work),
        traits_(traits(schedule)),
        stages_(static_cast<int>(work.forward_s.size())),
        devices_(stages_ / work.chunks),
        devices_state_(at(devices_)),
        channels_(at(2 * devices_)),
        arrived_(at(2 * stages_ * work.micro_batches), -1) {
    for (int device = 0; device < devices_; ++device)
      for (const auto& [kind, chunk, micro_batch] :
           operation_order(schedule, {devices_, device, work.chunks, work.micro_batches}, /*flush=*/0))
        devices_state_[at(device)].steps.push_back({kind, chunk * devices_ + device, micro_batch});
    for (int message = 0; message < work.micro_batches; ++message) arrived({Kind::forward, 0, message}) = 0;
    result_.time.backward_s.assign(at(stages_), 0);
    result_.time.gradients_s.assign(at(stages_), 0);
    result_.micro_batch_done_s.assign(at(work.micro_batches), 0);
  }

  UnrolledPipeline run() {
    for (int device = 0; device < devices_; ++device) begin_next(device);
    for (;;) {
      const auto next_device =
          std::min_element(devices_state_.begin(), devices_state_.end(),
                           [](const DeviceState& a, const DeviceState& b) { return a.end_s < b.end_s; });
      const auto channel =
          std::min_element(channels_.begin(), channels_.end(),
                           [](const Channel& a, const Channel& b) { return a.end_s < b.end_s; });
      now_ = std::min(next_device->end_s, channel->end_s);
      if (now_ == infinity) return std::move(result_);
      if (next_device->end_s <= channel->end_s)
        end_computation(static_cast<int>(next_device - devices_state_.begin()));
      else
        advance_message(static_cast<int>(channel - channels_.begin()));
    }
  }

 private:
  struct DeviceState {
    std::vector<Step> steps;
    std::size_t next = 0;
    double end_s = infinity;  // of the current computation
    bool is_blocked = false;  // by a message that is being sent
    double free_s = 0;        // when that has arrived
  };
  struct Channel {
    std::vector<Step> messages;  // in the order of computation
    std::size_t next = 0;
    double end_s = infinity;        // of the current message: of its overhead, then of its bytes
    bool is_sending_bytes = false;  // its overhead is over
    double left = 0, updated_s = 0,
           pace_s = 0;  // remaining share at the time updated_s, and seconds for the whole message
  };

  double& arrived(const Step& step) {
    return arrived_[at(((step.is_forward() ? 0 : stages_) + step.stage) * work_.micro_batches +
                       step.message)];
  }
  int around(int device) const { return (device + 2 * devices_) % devices_; }
  int channel_of(bool forward, int device) const { return (forward ? 0 : devices_) + around(device); }
  bool is_sending_bytes(int channel) const { return channels_[at(channel)].is_sending_bytes; }
  const HopTime& hop(const Step& sent) const {
    return sent.is_forward() ? work_.forward_hops[at(sent.stage)] : work_.backward_hops[at(sent.stage - 1)];
  }

  double seconds(const Step& step) const {
    if (step.is_forward()) return work_.forward_s[at(step.stage)];
    if (!traits_.splits_backward) return work_.backward_s[at(step.stage)];
    const double weight_gradient_s = work_.weight_gradient_s[at(step.stage)];
    return step.kind == Kind::weight_gradient ? weight_gradient_s
                                              : work_.backward_s[at(step.stage)] - weight_gradient_s;
  }

  /// When the input of a step is on its device; negative: not yet. Weight gradients need what the device has
  /// computed before.
  double input_s(const Step& step) { return step.kind == Kind::weight_gradient ? 0 : arrived(step); }

  /// Begins the next step of a device that computes nothing, if its input has arrived.
  void begin_next(int device) {
    DeviceState& it = devices_state_[at(device)];
    if (it.end_s < infinity || it.is_blocked || it.next == it.steps.size()) return;
    const Step& step = it.steps[it.next];
    if (input_s(step) < 0) return;
    it.end_s = std::max({now_, it.free_s, input_s(step)}) + seconds(step);
  }

  void end_computation(int device) {
    DeviceState& it = devices_state_[at(device)];
    const Step step = it.steps[it.next++];
    it.end_s = infinity;
    PipelineTime& time = result_.time;
    time.end_s = std::max(time.end_s, now_);
    if (!step.is_forward()) {
      time.backward_s[at(step.stage)] = time.gradients_s[at(step.stage)] = now_;
      if (step.stage == 0) result_.micro_batch_done_s[at(step.message)] = now_;
    }
    if (step.is_forward() && step.stage + 1 == stages_) {
      arrived({Kind::backward, step.stage, step.message}) = now_;
    } else if (step.is_forward() || (step.kind == Kind::backward && step.stage > 0)) {
      send(step, device);
      it.is_blocked = traits_.is_blocking;
    }
    begin_next(device);
  }

  void send(const Step& step, int device) {
    Channel& it = channels_[at(channel_of(step.is_forward(), device))];
    it.messages.push_back(step);
    if (it.end_s == infinity) it.end_s = now_ + hop(step).overhead_s;
  }

  void advance_message(int channel) {
    Channel& it = channels_[at(channel)];
    if (it.is_sending_bytes) {
      end_message(channel);
    } else {
      it.is_sending_bytes = true;
      it.left = 1;
      it.updated_s = now_;
      it.pace_s = 1;
      set_pace(channel);
    }
    for (const int other : {opposite_at_sender(channel), opposite_at_receiver(channel)})
      if (other != channel && is_sending_bytes(other)) set_pace(other);
  }

  void unblock(int device, double arrival) {
    devices_state_[at(device)].is_blocked = false;
    devices_state_[at(device)].free_s = arrival;
    result_.time.end_s = std::max(result_.time.end_s, arrival);
    begin_next(device);
  }

  void end_message(int channel) {
    Channel& it = channels_[at(channel)];
    const Step step = it.messages[it.next++];
    it.is_sending_bytes = false;
    it.end_s = it.next < it.messages.size() ? now_ + hop(it.messages[it.next]).overhead_s : infinity;
    const Step received{step.kind, step.is_forward() ? step.stage + 1 : step.stage - 1, step.message};
    const double arrival = now_ + hop(step).latency_s;
    arrived(received) = arrival;
    if (!step.is_forward() && !traits_.splits_backward) result_.time.gradients_s[at(step.stage)] = arrival;
    begin_next(received.stage % devices_);
    if (traits_.is_blocking) unblock(step.stage % devices_, arrival);
  }

  /// The channel of the other direction that has the same sender, and the one that has the same receiver.
  int opposite_at_sender(int channel) const {
    return channel < devices_ ? channel_of(false, channel) : channel_of(true, channel - devices_);
  }
  int opposite_at_receiver(int channel) const {
    return channel < devices_ ? channel_of(false, channel + 2) : channel_of(true, channel - devices_ - 2);
  }

  void set_pace(int channel) {
    Channel& it = channels_[at(channel)];
    it.left -= (now_ - it.updated_s) / it.pace_s;
    it.updated_s = now_;
    const HopTime& hop_time = hop(it.messages[it.next]);
    double occupancy = hop_time.occupancy_s;
    if (is_sending_bytes(opposite_at_sender(channel)))
      occupancy = std::max(occupancy, hop_time.occupancy_while_sending_s);
    if (is_sending_bytes(opposite_at_receiver(channel)))
      occupancy = std::max(occupancy, hop_time.occupancy_while_receiving_s);
    it.pace_s = std::max(occupancy - hop_time.overhead_s, std::numeric_limits<double>::min());
    it.end_s = now_ + std::max(0.0, it.left) * it.pace_s;
  }

  const PipelineWork& work_;
  const ScheduleTraits& traits_;
  int stages_, devices_;
  double now_ = 0;
  std::vector<DeviceState> devices_state_;
  std::vector<Channel> channels_;  // forward by sender, then backward
  std::vector<double> arrived_;    // [forward, backward][stage][micro-batch], −1: not yet
  UnrolledPipeline result_;
};

}  // namespace

UnrolledPipeline unroll_pipeline(Schedule schedule, const PipelineWork& work) {
  return PipelineUnroll(schedule, work).run();
}

}  // namespace dtfm::cost
