#include "core/schedule/messaging.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/base/kind_table.hpp"

namespace dtfm {
namespace {

using Orders = std::vector<std::vector<Operation>>;
using Actions = std::vector<std::vector<Action>>;
using Kind = Operation::Kind;

/// Appends actions of a device, leaving out messages that do not exist.
class ActionList {
 public:
  ActionList(int device, const PipelineShape& shape) : device_(device), shape_(shape) {}

  void compute(const Operation& it) { list_.push_back({Action::Kind::compute, it}); }
  void send(const Operation& it) { add_output(Action::Kind::send, it); }
  void wait_send(const Operation& it) { add_output(Action::Kind::wait_send, it); }
  void receive(const Operation& it) { add_input(Action::Kind::receive, it); }
  void wait_receive(const Operation& it) { add_input(Action::Kind::wait_receive, it); }

  std::vector<Action> take() { return std::move(list_); }

 private:
  void add_output(Action::Kind kind, const Operation& it) {
    if (has_output(it, device_, shape_)) list_.push_back({kind, it});
  }
  void add_input(Action::Kind kind, const Operation& it) {
    if (has_input(it, device_, shape_)) list_.push_back({kind, it});
  }

  int device_;
  const PipelineShape& shape_;
  std::vector<Action> list_;
};

/// Forwards of a device before its first other operation.
std::size_t count_warm_up(const std::vector<Operation>& order) {
  return static_cast<std::size_t>(
      std::find_if(order.begin(), order.end(), [](const Operation& it) { return it.kind != Kind::forward; }) -
      order.begin());
}

/// The next operation of the same kind after `i`; null if there is none.
const Operation* next_of_kind(const std::vector<Operation>& order, std::size_t i) {
  const auto next = std::find_if(order.begin() + static_cast<std::ptrdiff_t>(i) + 1, order.end(),
                                 [&](const Operation& it) { return it.kind == order[i].kind; });
  return next == order.end() ? nullptr : &*next;
}

/// A device sends what it has computed. Whether it waits is a trait of the schedule.
Actions ahead_actions(const ScheduleTraits&, const Orders& orders, const PipelineShape& shape) {
  Actions actions;
  for (int device = 0; device < shape.devices; ++device) {
    ActionList list(device, shape);
    for (const Operation& it : orders[at(device)]) {
      list.compute(it);
      list.send(it);
    }
    actions.push_back(list.take());
  }
  return actions;
}

/// ScheduleGPipe (torch 2.15, schedules.py): a receive is posted when the micro-batch is needed; sends are
/// waited for after all forwards, and after all backwards.
std::vector<Action> torch_gpipe(const std::vector<Operation>& order, int device, const PipelineShape& shape) {
  ActionList list(device, shape);
  const auto wait_for = [&](Kind kind) {
    for (const Operation& it : order)
      if (it.kind == kind) list.wait_send(it);
  };
  const std::size_t forwards = count_warm_up(order);
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i == forwards) wait_for(Kind::forward);
    list.receive(order[i]);
    list.compute(order[i]);
    list.send(order[i]);
  }
  wait_for(Kind::backward);
  return list.take();
}

/// Schedule1F1B: between a forward and a backward, or a backward and a forward, a device issues its send
/// together with its next receive and waits for both. In warm-up and cool-down, it waits for a send after its
/// next computation.
std::vector<Action> torch_one_f_one_b(const std::vector<Operation>& order, int device,
                                      const PipelineShape& shape) {
  ActionList list(device, shape);
  const Operation* pending = nullptr;  // a send that is not yet waited for
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || order[i].kind == order[i - 1].kind) list.receive(order[i]);
    list.compute(order[i]);
    if (pending) list.wait_send(*pending);
    pending = &order[i];
    list.send(order[i]);
    if (i + 1 < order.size() && order[i + 1].kind != order[i].kind) {
      list.receive(order[i + 1]);
      list.wait_send(*pending);
      pending = nullptr;
    }
  }
  if (pending) list.wait_send(*pending);
  return list.take();
}

/// _PipelineScheduleRuntime (_add_send_recv, _add_wait_send): it goes through the devices in turns. When a
/// sender computes a message, its receive is inserted at the point that the receiver's list has reached. A
/// forward send is waited for after the device's backward of the micro-batch, others at the end.
Actions torch_runtime(const Orders& orders, const PipelineShape& shape) {
  Actions actions(orders.size());
  std::set<std::tuple<int, Kind, int>> received;  // [stage], kind of the computation, micro-batch
  std::vector<std::size_t> next(orders.size());
  const int stages = shape.devices * shape.chunks;
  const auto stage_of = [&](const Operation& it, int device) { return it.chunk * shape.devices + device; };
  for (bool progressed = true; progressed;) {
    progressed = false;
    for (int device = 0; device < shape.devices; ++device) {
      if (next[at(device)] == orders[at(device)].size()) continue;
      const Operation operation = orders[at(device)][next[at(device)]];
      const int stage = stage_of(operation, device);
      if (has_input(operation, device, shape) &&
          !received.contains({stage, operation.kind, operation.micro_batch}))
        continue;
      progressed = true;
      ++next[at(device)];
      actions[at(device)].push_back({Action::Kind::compute, operation});
      if (!has_output(operation, device, shape)) continue;
      actions[at(device)].push_back({Action::Kind::send, operation});
      const int receiver = operation.kind == Kind::forward ? stage + 1 : stage - 1;
      DTFM_ASSERT(receiver >= 0 && receiver < stages);
      const Operation input{operation.kind, receiver / shape.devices, operation.micro_batch};
      actions[at(receiver % shape.devices)].push_back({Action::Kind::receive, input});
      received.insert({receiver, input.kind, input.micro_batch});
    }
  }
  for (std::size_t device = 0; device < actions.size(); ++device) {
    DTFM_ASSERT(next[device] == orders[device].size());  // otherwise the schedule is deadlocked
    std::vector<Action> waited;
    std::vector<Operation> gradients;
    for (const Action& it : actions[device]) {
      waited.push_back(it);
      if (it.operation.kind != Kind::backward) continue;
      if (it.kind == Action::Kind::send) gradients.push_back(it.operation);
      const Operation forward{Kind::forward, it.operation.chunk, it.operation.micro_batch};
      if (it.kind == Action::Kind::compute && has_output(forward, static_cast<int>(device), shape))
        waited.push_back({Action::Kind::wait_send, forward});
    }
    for (const Operation& it : gradients) waited.push_back({Action::Kind::wait_send, it});
    actions[device] = std::move(waited);
  }
  return actions;
}

/// ScheduleGPipe and Schedule1F1B are classes of their own; all others, also 1f1b that does not block, are
/// lists of operations for the runtime.
Actions torch_actions(const ScheduleTraits& schedule, const Orders& orders, const PipelineShape& shape) {
  const bool is_1f1b = schedule.alternates && schedule.is_blocking;
  if (!schedule.forwards_first && !is_1f1b) return torch_runtime(orders, shape);
  Actions actions;
  for (int device = 0; device < shape.devices; ++device)
    actions.push_back(
        (schedule.forwards_first ? torch_gpipe : torch_one_f_one_b)(orders[at(device)], device, shape));
  return actions;
}

/// PipelineEngine with TrainSchedule (DeepSpeed 0.19): calls block. A device sends a gradient before it
/// receives the next activation; but if a backward follows a forward at once, it receives its gradient before
/// it sends the activation. (Device d of p computes forward k in step 2 k + d and backward j in step 2 j + 2
/// p − 1 − d of all devices.)
Actions deepspeed_actions(const ScheduleTraits& schedule, const Orders& orders, const PipelineShape& shape) {
  Actions actions;
  for (int device = 0; device < shape.devices; ++device) {
    ActionList list(device, shape);
    const std::vector<Operation>& order = orders[at(device)];
    const auto send = [&](const Operation& it) {
      list.send(it);
      list.wait_send(it);
    };
    const auto receive = [&](const Operation& it) {
      list.receive(it);
      list.wait_receive(it);
    };
    for (std::size_t i = 0; i < order.size(); ++i) {
      const Operation* previous = i > 0 ? &order[i - 1] : nullptr;
      if (schedule.alternates && previous && previous->kind == Kind::forward &&
          order[i].kind == Kind::backward &&
          previous->micro_batch - order[i].micro_batch == shape.devices - 1 - device) {
        receive(order[i]);
        send(*previous);
      } else {
        if (previous) send(*previous);
        receive(order[i]);
      }
      list.compute(order[i]);
    }
    send(order.back());
    actions.push_back(list.take());
  }
  return actions;
}

/// forward_backward_pipelining_without_interleaving (megatron-core 0.16): sends and receives block; between a
/// forward and a backward, or a backward and a forward, a device issues its send and its next receive
/// together.
std::vector<Action> megatron_one_f_one_b(const std::vector<Operation>& order, int device,
                                         const PipelineShape& shape) {
  ActionList list(device, shape);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const bool is_fused = i > 0 && order[i].kind != order[i - 1].kind;
    if (i > 0) list.send(order[i - 1]);
    if (is_fused) list.receive(order[i]);
    if (i > 0) list.wait_send(order[i - 1]);
    if (!is_fused) list.receive(order[i]);
    list.wait_receive(order[i]);
    list.compute(order[i]);
  }
  list.send(order.back());
  list.wait_send(order.back());
  return list.take();
}

/// forward_backward_pipelining_with_interleaving with --overlap-p2p-communication-warmup-flush: a device
/// posts one receive ahead in each direction, and waits for a send when it has issued the next one of that
/// direction. In the warm-up (but on the first device) and in the cool-down (but on the last one), the next
/// receive is posted before computing.
std::vector<Action> megatron_interleaved(const std::vector<Operation>& order, int device,
                                         const PipelineShape& shape) {
  ActionList list(device, shape);
  const auto warm_up = static_cast<std::size_t>(
      std::min(shape.chunks * shape.micro_batches,
               2 * (shape.devices - device - 1) + (shape.chunks - 1) * shape.devices));
  const std::size_t cool_down = order.size() - warm_up;
  const Operation* sent[2] = {nullptr, nullptr};  // in each direction, not yet waited for
  list.receive(order.front());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Operation* next = next_of_kind(order, i);
    const bool is_early = i < warm_up ? device > 0 : i >= cool_down && device + 1 < shape.devices;
    list.wait_receive(order[i]);
    if (is_early && next) list.receive(*next);
    list.compute(order[i]);
    list.send(order[i]);
    if (!is_early && next) list.receive(*next);
    const Operation*& previous = sent[order[i].kind == Kind::forward ? 0 : 1];
    if (previous) list.wait_send(*previous);
    previous = &order[i];
    if (i + 1 == warm_up && warm_up < order.size()) {
      const auto first = std::find_if(order.begin(), order.end(),
                                      [](const Operation& it) { return it.kind == Kind::backward; });
      if (first != order.end()) list.receive(*first);
    }
  }
  for (const Operation* it : sent)
    if (it) list.wait_send(*it);
  return list.take();
}

Actions megatron_actions(const ScheduleTraits& schedule, const Orders& orders, const PipelineShape& shape) {
  Actions actions;
  for (int device = 0; device < shape.devices; ++device)
    actions.push_back((schedule.has_chunks ? megatron_interleaved : megatron_one_f_one_b)(orders[at(device)],
                                                                                          device, shape));
  return actions;
}

constexpr auto messagings = std::to_array<MessagingTraits>({
    {.kind = Messaging::ahead, .name = "ahead", .posts_receives = false, .actions = ahead_actions},
    {.kind = Messaging::megatron,
     .name = "megatron",
     .deadlocks_with_long_warm_up = true,
     .actions = megatron_actions},
    // deepspeed/runtime/zero/stage_1_and_2.py, average_tensor; pipe/engine.py, _bf16_reduce_grads and
    // _aggregate_total_loss
    {.kind = Messaging::deepspeed,
     .name = "deepspeed",
     .deadlocks_unless_simple = true,
     .deadlocks_with_long_warm_up = true,
     .all_reduces_shards = true,
     .reduces_scalars = true,
     .actions = deepspeed_actions},
    {.kind = Messaging::torch, .name = "torch", .actions = torch_actions},
});
static_assert(has_row_for_each(messagings, Messaging::torch));

}  // namespace

bool has_input(const Operation& operation, int device, const PipelineShape& shape) {
  if (operation.kind == Kind::weight_gradient) return false;
  return operation.kind == Kind::forward ? operation.chunk > 0 || device > 0
                                         : operation.chunk + 1 < shape.chunks || device + 1 < shape.devices;
}

bool has_output(const Operation& operation, int device, const PipelineShape& shape) {
  if (operation.kind == Kind::weight_gradient) return false;
  return operation.kind == Kind::backward ? operation.chunk > 0 || device > 0
                                          : operation.chunk + 1 < shape.chunks || device + 1 < shape.devices;
}

std::span<const MessagingTraits> messaging_table() {
  return messagings;
}

const MessagingTraits& traits(Messaging messaging) {
  return row_of(messagings, messaging);
}

std::string_view name_of(Messaging messaging) {
  return traits(messaging).name;
}

bool can_run(Messaging messaging, Schedule schedule) {
  const ScheduleTraits& order = traits(schedule);
  const MessagingTraits& row = traits(messaging);
  if (row.deadlocks_with_long_warm_up && (order.has_planned_warm_up || order.has_planned_passes))
    return false;
  return !row.deadlocks_unless_simple || (!order.has_chunks && !order.splits_backward);
}

std::vector<std::vector<Action>> device_actions(Messaging messaging, Schedule schedule,
                                                const PipelineShape& shape, int flush) {
  const MessagingTraits& row = traits(messaging);
  const int round = flush > 0 ? flush : std::max(1, shape.micro_batches);
  Actions all(at(shape.devices));
  for (int done = 0; done < shape.micro_batches; done += round) {
    PipelineShape part = shape;
    part.micro_batches = std::min(round, shape.micro_batches - done);
    Orders orders;
    for (int device = 0; device < shape.devices; ++device)
      orders.push_back(operation_order(schedule, part.position(device), /*flush=*/0));
    const Actions actions = row.actions(traits(schedule), orders, part);
    for (std::size_t device = 0; device < actions.size(); ++device)
      for (Action it : actions[device]) {
        it.operation.micro_batch += done;
        all[device].push_back(it);
      }
  }
  return all;
}

}  // namespace dtfm
