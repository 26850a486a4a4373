// Labels of tasks in a lowered graph: what each task stands for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "simulator/graph/task_graph.hpp"

namespace dtfm::sim {

enum class Activity : std::uint8_t {
  forward,
  backward,
  weight_gradient,  // the part of a split backward that computes gradients of parameters
  send_activations,
  send_gradients,   // gradients of activations, to the previous stage
  all_reduce,       // of activations or their gradients, between the devices of a stage
  pass_keys,        // and values of attention, or their gradients, around a ring of devices of a stage
  all_to_all,       // of tokens and results of experts, between the devices of a stage
  gradient_sync,    // of the gradients of parameters, between the replicas of a stage
  all_gather,       // of parameters that are partitioned over the replicas
  compress,         // or decompress
  update,           // optimizer step of a device
  wait,             // joins and delays that keep no device busy
  step,             // barrier and fixed overhead at the end of an iteration; reductions of single numbers
  fetch,            // of weights, during a recovery
  save_checkpoint,  // of weights and optimizer state
};

struct TaskLabel {
  Activity activity = Activity::wait;
  int device = no_index;  // the device that computes or sends; index into Topology::devices
  int peer = no_index;    // the device that receives
  int pipeline = no_index, stage = no_index, micro_batch = no_index;
  int phase = no_index;  // step of a collective, from 0; otherwise distinguishes tasks of one micro-batch
  int layer = no_index;  // first layer of a collective; the layer, where layers are computed one by one
  int rank = no_index;   // in a stage of several devices
};

/// Returns a name that is unique in its iteration: `F p0 s3 m17`, `X l6 k2 d1>d5` (a message of a gradient
/// synchronization from device 1 to device 5).
std::string format_label(const TaskLabel& label);
/// Parses what format_label writes; nullopt for other text.
std::optional<TaskLabel> parse_label(std::string_view name);

}  // namespace dtfm::sim
