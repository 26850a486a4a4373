// Resharding between stages of different tensor degrees.
#pragma once

#include <algorithm>
#include <vector>

#include "core/plan/plan.hpp"

namespace dtfm {

// A stage of t devices (those of all groups of a StageMesh) holds everything in t equal shards, one after
// another on its devices in their order: its input and output activations, weights and gradients.
// (Activations only with sequence parallelism; see divides_messages in core/plan/job.hpp.) Data sent between
// two stages is cut into as many parts as the larger of both has shards, and every part is sent between the
// two devices that hold it: max(a, b) messages, of which a device of the smaller stage sends or receives
// several. (Resharding by overlapping parts: Zhuang et al., arXiv 2211.05322, section 3, without its
// broadcasts.)

/// Rank of the device that holds part `part` of `parts`; `parts` must be a multiple of `degree`.
inline int rank_of_part(int part, int parts, int degree) {
  return part / (parts / degree);
}

/// Number of messages between two stages with these devices, in one direction.
inline int parts_between(const std::vector<int>& devices, const std::vector<int>& others) {
  return static_cast<int>(std::max(devices.size(), others.size()));
}

/// The device of a stage that holds a part.
inline int device_of_part(const std::vector<int>& devices, int part, int parts) {
  return devices[static_cast<std::size_t>(rank_of_part(part, parts, static_cast<int>(devices.size())))];
}

/// Numbers of devices of a plan's stages, distinct, in ascending order.
std::vector<int> stage_sizes(const Plan& plan);
/// The same of their tensor-parallel groups.
std::vector<int> tensor_degrees(const Plan& plan);

/// Throws Error if a stage does not have a multiple of the devices that its mesh requires (stage_mesh).
void check_stage_sizes(const Plan& plan);
/// Throws Error unless, of any two tensor degrees of a plan, the larger is a multiple of the smaller.
/// Otherwise shards would overlap partially.
void check_tensor_degrees(const Plan& plan);

}  // namespace dtfm
