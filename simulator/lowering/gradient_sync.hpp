// Lowers collectives (core/collectives) to tasks: each message is a flow, and joins wait for what a device
// has received.
#pragma once

#include <vector>

#include "core/collectives/collective.hpp"
#include "simulator/lowering/graph_builder.hpp"

namespace dtfm::sim {

/// Devices whose gradients are to be synchronized.
struct SyncGroup {
  std::vector<int> devices;  // those that represent all others (GraphBuilder::symmetry); two or more in all
  double bytes = 0;          // gradients, or parameters, per device
  std::vector<int> ready;    // for each device, the task after which it has them
  int layer = 0;             // the first layer, for labels
  int part = no_index;       // for labels, if a device synchronizes several parts of these layers
  CollectiveOptions options = {};
  bool overlaps = false;  // the same devices may synchronize other layers at the same time
  /// Synchronized one after another: each message stands for one of every piece, and an all-reduce may use
  /// trees. 0: all of it at once.
  double pieces = 0;
};

/// Adds the messages of a collective. Messages are larger if the calibrated sync efficiency is below 1.
/// Returns, for each device of the group, the task after which it has the result.
std::vector<int> add_gradient_sync(GraphBuilder& builder, GradientSync sync, const SyncGroup& group);

}  // namespace dtfm::sim
