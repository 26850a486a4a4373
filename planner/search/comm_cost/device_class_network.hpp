// A network of device classes: the possible compositions of groups and lower bounds on their costs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/base/stop.hpp"
#include "core/base/index.hpp"
#include "planner/cost/comm_cost/bottleneck_matching.hpp"
#include "planner/cost/comm_cost/comm_cost.hpp"
#include "planner/search/comm_cost/device_classes.hpp"

namespace dtfm::search {

using Counts = std::vector<std::int16_t>;  // devices by class

/// The number of devices of each class in a group, with lower bounds on the costs of such a group.
struct Composition {
  Counts counts;
  double sync = 0;     // s, no such group synchronizes faster
  double min_hop = 0;  // s, no hop into or out of such a group is faster
};

/// The classes with their least costs. If `stop` returned true during construction, only `classes` may be
/// called.
class DeviceClassNetwork {
 public:
  DeviceClassNetwork(const cost::CommCostModel& model, const DeviceClasses& classes, const StopFunction& stop)
      : model_(model), members_(classes.members()), count_(classes.count), matcher_(model.replicas) {
    if (measure_hops(stop) && measure_sync(classes, stop)) find_interchangeable();
  }

  int classes() const { return count_; }
  int size(int c) const { return static_cast<int>(members_[at(c)].size()); }
  double min_hop(int c) const { return min_hop_[at(c)]; }
  double hop(int a, int b) const { return hop_(a, b); }
  double fastest_hop() const {
    return model_.devices() == 1 ? 0 : *std::min_element(min_hop_.begin(), min_hop_.end());
  }

  Composition measure(Counts counts) const;
  /// Cost of the bottleneck matching between two compositions, s.
  double hop_between(const Counts& a, const Counts& b);
  /// Maps all pairs (a, b) that differ only by a permutation of interchangeable classes to the same pair, by
  /// sorting a and b together.
  void make_canonical(Counts& a, Counts& b) const;

 private:
  bool measure_hops(const StopFunction& stop);
  bool measure_sync(const DeviceClasses& classes, const StopFunction& stop);
  void find_interchangeable();
  bool are_interchangeable(int a, int b) const;

  const cost::CommCostModel& model_;
  std::vector<std::vector<int>> members_;
  int count_;
  Eigen::MatrixXd hop_;          // s, classes × classes, minimum over pairs of devices
  std::vector<double> min_hop_;  // s, by class
  /// [class · n + device][k]: sum of the k least `sync` of the device to members of the class, s.
  std::vector<std::vector<double>> sync_prefix_;
  std::vector<std::vector<int>> interchangeable_classes_;  // sets with at least two classes
  cost::BottleneckMatcher matcher_;
};

}  // namespace dtfm::search
