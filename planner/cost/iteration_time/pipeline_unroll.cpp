#include "planner/cost/iteration_time/pipeline_unroll.hpp"

#include <algorithm>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/base/infinity.hpp"

namespace dtfm::cost {
namespace {

using Kind = Operation::Kind;

PipelineShape shape_of(const PipelineWork& work) {
  PipelineShape shape{static_cast<int>(work.forward_s.size()) / work.chunks, work.chunks, work.micro_batches};
  for (const int warm_up : work.warm_ups) shape.planned.push_back({.warm_up = warm_up});
  for (const PassOrder& passes : work.passes) shape.planned.push_back({.passes = passes});
  return shape;
}

class PipelineUnroll {
 public:
  PipelineUnroll(Schedule schedule, const PipelineWork& work)
      : work_(work),
        traits_(traits(schedule)),
        stages_(static_cast<int>(work.forward_s.size())),
        devices_(stages_ / work.chunks),
        states_(at(devices_)),
        forward_arrived_(at(stages_ * work.micro_batches), never),
        backward_arrived_(forward_arrived_) {
    const PipelineShape shape = shape_of(work);
    for (int device = 0; device < devices_; ++device)
      states_[at(device)].operations = operation_order(schedule, shape.position(device), /*flush=*/0);
    std::fill_n(forward_arrived_.begin(), work.micro_batches, 0);
    result_.time.backward_s.assign(at(stages_), 0);
    result_.time.gradients_s.assign(at(stages_), 0);
    result_.micro_batch_done_s.assign(at(work.micro_batches), 0);
  }

  /// In the order in which computations end, because that is the order of messages on a link.
  UnrolledPipeline run() {
    for (int device = 0; device < devices_; ++device) begin_next(device);
    for (;;) {
      const auto next = std::min_element(states_.begin(), states_.end(),
                                         [](const auto& a, const auto& b) { return a.end_s < b.end_s; });
      if (next->end_s == infinity) return std::move(result_);
      end_computation(static_cast<int>(next - states_.begin()));
    }
  }

 private:
  static constexpr double never = -1;
  struct DeviceState {
    std::vector<Operation> operations;
    std::size_t next = 0;
    double end_s = infinity;                               // of the current computation
    double free_s = 0;                                     // end of the last one
    double forward_channel_s = 0, backward_channel_s = 0;  // end of the last message to either side
  };

  double& arrived(std::vector<double>& times, int stage, int micro_batch) const {
    return times[at(stage * work_.micro_batches + micro_batch)];
  }

  double seconds(Kind kind, int stage) const {
    if (kind == Kind::forward) return work_.forward_s[at(stage)];
    if (!traits_.splits_backward) return work_.backward_s[at(stage)];
    const double weight_gradient_s = work_.weight_gradient_s[at(stage)];
    return kind == Kind::weight_gradient ? weight_gradient_s
                                         : work_.backward_s[at(stage)] - weight_gradient_s;
  }

  /// Begins the next computation of a device, if it computes nothing and its input has arrived. Weight
  /// gradients need what the device has computed before.
  void begin_next(int device) {
    DeviceState& state = states_[at(device)];
    if (state.end_s < infinity || state.next == state.operations.size()) return;
    const Operation& operation = state.operations[state.next];
    const int stage = operation.chunk * devices_ + device;
    double input_s = 0;
    if (operation.kind != Kind::weight_gradient)
      input_s = arrived(operation.kind == Kind::forward ? forward_arrived_ : backward_arrived_, stage,
                        operation.micro_batch);
    if (input_s != never) state.end_s = std::max(state.free_s, input_s) + seconds(operation.kind, stage);
  }

  void end_computation(int device) {
    DeviceState& state = states_[at(device)];
    const Operation operation = state.operations[state.next++];
    const int stage = operation.chunk * devices_ + device;
    const double now_s = state.free_s = std::exchange(state.end_s, infinity);
    PipelineTime& time = result_.time;
    time.end_s = std::max(time.end_s, now_s);
    if (operation.kind != Kind::forward) {
      time.backward_s[at(stage)] = time.gradients_s[at(stage)] = now_s;
      if (stage == 0) result_.micro_batch_done_s[at(operation.micro_batch)] = now_s;
    }
    if (operation.kind == Kind::forward && stage + 1 == stages_) {
      arrived(backward_arrived_, stage, operation.micro_batch) = now_s;
    } else if (operation.kind == Kind::forward) {
      arrived(forward_arrived_, stage + 1, operation.micro_batch) =
          send(state, state.forward_channel_s, work_.forward_hops[at(stage)]);
      begin_next((stage + 1) % devices_);
    } else if (operation.kind == Kind::backward && stage > 0) {
      const double arrival_s = send(state, state.backward_channel_s, work_.backward_hops[at(stage - 1)]);
      arrived(backward_arrived_, stage - 1, operation.micro_batch) = arrival_s;
      if (!traits_.splits_backward) time.gradients_s[at(stage)] = arrival_s;
      begin_next((stage - 1) % devices_);
    }
    begin_next(device);
  }

  /// Returns when the message arrives.
  double send(DeviceState& state, double& channel_s, const HopTime& hop) {
    double begin_s = std::max(channel_s, state.free_s);
    for (const HopTime::Link& link : hop.links) {
      if (links_s_.size() <= at(link.number)) links_s_.resize(at(link.number) + 1);
      begin_s = std::max(begin_s, links_s_[at(link.number)]);
    }
    for (const HopTime::Link& link : hop.links) links_s_[at(link.number)] = begin_s + link.busy_s;
    channel_s = begin_s + hop.occupancy_s;
    const double arrival_s = channel_s + hop.latency_s;
    if (traits_.is_blocking) {
      state.free_s = arrival_s;
      result_.time.end_s = std::max(result_.time.end_s, arrival_s);
    }
    return arrival_s;
  }

  const PipelineWork& work_;
  const ScheduleTraits& traits_;
  int stages_, devices_;
  std::vector<DeviceState> states_;
  std::vector<double> links_s_;                             // end of the last message, by number
  std::vector<double> forward_arrived_, backward_arrived_;  // [stage][micro-batch]
  UnrolledPipeline result_;
};

/// Unrolls a pipeline whose devices post receives as their trainer does.
class ActionUnroll {
 public:
  ActionUnroll(Schedule schedule, const PipelineWork& work)
      : work_(work),
        schedule_(traits(schedule)),
        stages_(static_cast<int>(work.forward_s.size())),
        shape_(shape_of(work)),
        messages_(2 * at(stages_) * at(work.micro_batches)) {
    for (std::vector<Action>& it : device_actions(work.messaging, schedule, shape_, /*flush=*/0))
      states_.push_back({std::move(it)});
    result_.time.backward_s.assign(at(stages_), 0);
    result_.time.gradients_s.assign(at(stages_), 0);
    result_.micro_batch_done_s.assign(at(work.micro_batches), 0);
  }

  /// Always lets the device act that is the earliest of those that can, because that is the order of messages
  /// on a link.
  UnrolledPipeline run() {
    for (;;) {
      int first = no_index;
      for (int device = 0; device < shape_.devices; ++device)
        if (can_act(device) && (first == no_index || states_[at(device)].now_s < states_[at(first)].now_s))
          first = device;
      if (first == no_index) break;
      act(first);
    }
    for (int stage = 0; stage < stages_; ++stage) {
      const DeviceState& state = states_[at(stage % shape_.devices)];
      DTFM_ASSERT(state.next == state.actions.size());  // otherwise the schedule is deadlocked
      result_.time.gradients_s[at(stage)] = state.now_s;
      result_.time.end_s = std::max(result_.time.end_s, state.now_s);
    }
    return std::move(result_);
  }

 private:
  static constexpr double never = -1;
  struct DeviceState {
    std::vector<Action> actions;
    std::size_t next = 0;
    double now_s = 0;                                      // when it has done all before `next`
    double forward_channel_s = 0, backward_channel_s = 0;  // end of the last message to either side
  };
  struct Message {
    double sent_s = never, posted_s = never, arrives_s = never;
  };

  int stage_of(const Operation& operation, int device) const {
    return operation.chunk * shape_.devices + device;
  }
  /// The message that a stage receives for its forward or backward of a micro-batch.
  Message& input(int stage, const Operation& operation) {
    const std::size_t pass = operation.kind == Kind::forward ? 0 : 1;
    return messages_[(pass * at(stages_) + at(stage)) * at(work_.micro_batches) + at(operation.micro_batch)];
  }
  Message& output(int stage, const Operation& operation) {
    return input(operation.kind == Kind::forward ? stage + 1 : stage - 1, operation);
  }

  /// The message that an action needs; null if it needs none.
  const Message* needed(int device, const Action& action) {
    const int stage = stage_of(action.operation, device);
    switch (action.kind) {
      case Action::Kind::send:
      case Action::Kind::receive:
        return nullptr;
      case Action::Kind::wait_send:
        return &output(stage, action.operation);
      case Action::Kind::compute:
      case Action::Kind::wait_receive:
        break;
    }
    return has_input(action.operation, device, shape_) ? &input(stage, action.operation) : nullptr;
  }

  bool can_act(int device) {
    const DeviceState& state = states_[at(device)];
    if (state.next == state.actions.size()) return false;
    const Message* message = needed(device, state.actions[state.next]);
    return !message || message->arrives_s != never;
  }

  void act(int device) {
    DeviceState& state = states_[at(device)];
    const Action& action = state.actions[state.next++];
    const int stage = stage_of(action.operation, device);
    if (const Message* message = needed(device, action))
      state.now_s = std::max(state.now_s, message->arrives_s);
    if (action.kind == Action::Kind::compute) return compute(state, stage, action.operation);
    if (action.kind == Action::Kind::send) {
      output(stage, action.operation).sent_s = state.now_s;
      begin_message(stage, action.operation);
    } else if (action.kind == Action::Kind::receive) {
      input(stage, action.operation).posted_s = state.now_s;
      begin_message(action.operation.kind == Kind::forward ? stage - 1 : stage + 1, action.operation);
    }
  }

  void compute(DeviceState& state, int stage, const Operation& operation) {
    PipelineTime& time = result_.time;
    const double weight_gradient_s = schedule_.splits_backward ? work_.weight_gradient_s[at(stage)] : 0;
    state.now_s += operation.kind == Kind::forward ? work_.forward_s[at(stage)]
                   : operation.kind == Kind::weight_gradient
                       ? weight_gradient_s
                       : work_.backward_s[at(stage)] - weight_gradient_s;
    if (operation.kind == Kind::forward) {
      if (schedule_.forwards_first) time.forwards_s = std::max(time.forwards_s, state.now_s);
      return;
    }
    time.backward_s[at(stage)] = state.now_s;
    if (stage == 0) result_.micro_batch_done_s[at(operation.micro_batch)] = state.now_s;
  }

  /// Lets the message from a stage begin if both sides are ready.
  void begin_message(int sender, const Operation& operation) {
    Message& message = output(sender, operation);
    if (message.sent_s == never || message.posted_s == never) return;
    const bool is_forward = operation.kind == Kind::forward;
    const HopTime& hop = is_forward ? work_.forward_hops[at(sender)] : work_.backward_hops[at(sender - 1)];
    DeviceState& state = states_[at(sender % shape_.devices)];
    double& channel_s = is_forward ? state.forward_channel_s : state.backward_channel_s;
    double begin_s = std::max({channel_s, message.sent_s, message.posted_s});
    for (const HopTime::Link& link : hop.links) {
      if (links_s_.size() <= at(link.number)) links_s_.resize(at(link.number) + 1);
      begin_s = std::max(begin_s, links_s_[at(link.number)]);
    }
    for (const HopTime::Link& link : hop.links) links_s_[at(link.number)] = begin_s + link.busy_s;
    channel_s = begin_s + hop.occupancy_s;
    message.arrives_s = channel_s + hop.latency_s;
  }

  const PipelineWork& work_;
  const ScheduleTraits& schedule_;
  int stages_;
  PipelineShape shape_;
  std::vector<DeviceState> states_;
  std::vector<Message> messages_;  // [pass][receiving stage][micro-batch]
  std::vector<double> links_s_;    // end of the last message, by number
  UnrolledPipeline result_;
};

}  // namespace

UnrolledPipeline unroll_pipeline(Schedule schedule, const PipelineWork& work) {
  if (work.messaging != Messaging::ahead) return ActionUnroll(schedule, work).run();
  return PipelineUnroll(schedule, work).run();
}

}  // namespace dtfm::cost
