// The costs of hops at which classes fall apart into components.
#pragma once

#include <vector>

#include "planner/search/comm_cost/device_class_network.hpp"

namespace dtfm::search {

/// Hops of at most `cost` connect classes to components; slower ones cost `beyond` or more.
struct HopLevel {
  double cost, beyond;         // s
  std::vector<int> component;  // of each class
  std::vector<int> size;       // of each component, in devices

  int components() const { return static_cast<int>(size.size()); }
  /// What a slower hop costs more than the levels below account for, in s.
  double extra() const { return beyond - cost; }
};

/// One level for each cost at which the components change, the least first. That is at most twice as many as
/// classes; the costs between need no levels of their own, for the runs at all of them are the same.
std::vector<HopLevel> hop_levels(const DeviceClassNetwork& network);

}  // namespace dtfm::search
