// In which order devices compute, send, post receives and wait. A schedule (schedule.hpp) says what a device
// computes; how its messages are issued is a trait of the trainer: one value of the enum, one function and
// one row of the table in messaging.cpp.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "core/schedule/schedule.hpp"

namespace dtfm {

enum class Messaging : unsigned char {
  ahead,     // receives are posted before the iteration; whether sends block is a trait of the schedule
  megatron,  // Megatron-LM: megatron/core/pipeline_parallel
  deepspeed,
  torch  // torch.distributed.pipelining
};

/// A message belongs to the computation whose output it is. It leaves its sender once the sender has issued
/// the send and the receiver has posted the receive, and arrives some time later.
struct Action {
  enum class Kind : unsigned char {
    compute,       // `operation`, which also waits for its input
    send,          // the output of `operation`
    receive,       // posts the receive of the input of `operation`
    wait_send,     // until the output of `operation` has arrived
    wait_receive,  // until the input of `operation` has arrived
  };
  Kind kind = Kind::compute;
  Operation operation;

  friend bool operator==(const Action&, const Action&) = default;
};

/// Sizes of a pipeline: device d of p has the stages d, d + p, … (chunks of them).
struct PipelineShape {
  int devices = 1, chunks = 1, micro_batches = 1;
  std::vector<PlannedOrder> planned = {};  // by device, or empty

  PipelinePosition position(int device) const {
    return {devices, device, chunks, micro_batches,
            planned.empty() ? PlannedOrder{} : planned[static_cast<std::size_t>(device)]};
  }
};

/// Whether the computation has an input from, or an output for, another stage.
bool has_input(const Operation& operation, int device, const PipelineShape& shape);
bool has_output(const Operation& operation, int device, const PipelineShape& shape);

struct MessagingTraits {
  Messaging kind;
  std::string_view name;       // in jobs
  bool posts_receives = true;  // the lists post receives; otherwise all are posted before the iteration
  /// Its calls block so that devices with several stages, or with split backwards, wait for each other
  /// forever.
  bool deadlocks_unless_simple = false;
  /// Its calls block, so that a stage which is more than one forward ahead of the next one waits forever.
  bool deadlocks_with_long_warm_up = false;
  /// A sharded optimizer's gradients are all-reduced, not reduce-scattered.
  bool all_reduces_shards = false;
  /// All-reduces scalars in every iteration (core/plan/scalar_reductions.hpp).
  bool reduces_scalars = false;
  /// The actions of every device in a round without pipeline flushes, given what each computes.
  std::vector<std::vector<Action>> (*actions)(const ScheduleTraits&,
                                              const std::vector<std::vector<Operation>>&,
                                              const PipelineShape&) = nullptr;
};

/// A row for each value, in the order of the enum.
std::span<const MessagingTraits> messaging_table();
const MessagingTraits& traits(Messaging messaging);
std::string_view name_of(Messaging messaging);
/// Whether devices that compute in this order do not wait for each other forever.
bool can_run(Messaging messaging, Schedule schedule);

/// The actions of every device in an iteration with a pipeline flush after every `flush` micro-batches (0:
/// only at the end). Every message is sent once and, if the messaging posts receives, received and waited for
/// once. Throws Error if the schedule cannot be run.
std::vector<std::vector<Action>> device_actions(Messaging messaging, Schedule schedule,
                                                const PipelineShape& shape, int flush);

}  // namespace dtfm
