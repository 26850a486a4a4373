// Levels of hop cost at which the device classes split into different connected components.
#pragma once

#include <vector>

#include "planner/search/comm_cost/device_class_network.hpp"

namespace dtfm::search {

/// Hops that cost at most `cost` connect the classes into components; all slower hops cost at least `beyond`.
struct HopLevel {
  double cost, beyond;         // s
  std::vector<int> component;  // by class
  std::vector<int> size;       // devices by component

  int components() const { return static_cast<int>(size.size()); }
  /// Additional cost, s, of a slower hop beyond what the lower levels account for.
  double extra() const { return beyond - cost; }
};

/// Returns one level for each cost at which the components change, in ascending order: at most twice as many
/// as classes. Costs in between need no level of their own, because they allow the same runs.
std::vector<HopLevel> hop_levels(const DeviceClassNetwork& network);

}  // namespace dtfm::search
