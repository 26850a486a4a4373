// Stages of different tensor degrees: which of their shards meet.
#pragma once

#include <algorithm>
#include <vector>

#include "planner/core/plan.hpp"

namespace dtfm {

// A stage of t devices has everything in t equal shards, the one after the other on its devices in their
// order: activations that it takes and gives, weights, gradients. Where what one stage has meets what another
// one has, it is cut into as many parts as the larger of both has shards, and every part is sent between the
// two devices that hold it: max(a, b) messages, of which a device of the smaller stage sends or gets several.
// (Resharding by the parts that overlap: Zhuang et al., arXiv 2211.05322, section 3, without its broadcasts.)

/// The rank that holds part `part` of `parts`, a multiple of the degree.
inline int rank_of_part(int part, int parts, int degree) {
  return part / (parts / degree);
}

/// Messages between two stages with these devices, in one direction.
inline int parts_between(const std::vector<int>& devices, const std::vector<int>& others) {
  return static_cast<int>(std::max(devices.size(), others.size()));
}

/// The device of a stage that holds a part.
inline int device_of_part(const std::vector<int>& devices, int part, int parts) {
  return devices[static_cast<std::size_t>(rank_of_part(part, parts, static_cast<int>(devices.size())))];
}

/// Those of a plan's stages, each once, in ascending order.
std::vector<int> tensor_degrees(const Plan& plan);

/// Throws Error where shards of two stages would overlap in part: of any two degrees of a plan the larger is
/// a multiple of the smaller.
void check_tensor_degrees(const Plan& plan);

}  // namespace dtfm
