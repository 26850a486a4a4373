// What the tasks of a lowered graph are for.
#pragma once

#include <cstdint>
#include <string>

#include "simulator/graph/task_graph.hpp"

namespace dtfm::sim {

enum class Activity : std::uint8_t {
  forward,
  backward,
  send_activations,
  send_gradients,   // of activations, to the stage before
  all_reduce,       // of activations or their gradients, between the devices of a stage
  gradient_sync,    // of the gradients of parameters, between the replicas of a stage
  all_gather,       // of parameters that replicas hold parts of
  compress,         // or expand
  update,           // of the weights of a device: the optimizer's step
  wait,             // joins and delays that no device is busy with
  step,             // the fixed cost of an iteration
  fetch,            // of weights, in a recovery
  save_checkpoint,  // of weights, into a checkpoint
};

struct TaskLabel {
  Activity activity = Activity::wait;
  int device = no_index;  // index into Topology::devices: that computes or sends
  int peer = no_index;    // that receives
  int pipeline = no_index, stage = no_index, micro_batch = no_index;
  int phase = no_index;  // of an exchange: its steps, from 0; of others: which one of a micro-batch
  int layer = no_index;  // the first one of an exchange; of a backward that is done layer by layer
  int rank = no_index;   // among the devices of a stage, where there are several
};

/// A name that is unique in its iteration: `F p0 s3 m17`, `X l6 k2 d1>d5` (an exchange from device 1 to 5).
std::string format_label(const TaskLabel& label);

}  // namespace dtfm::sim
