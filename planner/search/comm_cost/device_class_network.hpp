// The devices as classes: what groups can be made of, and the least that such groups cost.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "planner/core/index.hpp"
#include "planner/cost/comm_cost/bottleneck_matching.hpp"
#include "planner/cost/comm_cost/comm_cost.hpp"
#include "planner/search/comm_cost/device_classes.hpp"

namespace dtfm::search {

using Counts = std::vector<std::int16_t>;  // of each class

/// What a group can be made of.
struct Composition {
  Counts counts;
  double sync = 0;       // s, no group so composed exchanges faster
  double min_hop = 0;  // s, no hop into or out of it is faster
};

/// The classes with their least costs. When `stop` said so half-way they are not known, and nothing but
/// `classes` may be asked.
class DeviceClassNetwork {
 public:
  DeviceClassNetwork(const cost::CommCostModel& model, const DeviceClasses& classes, const std::function<bool()>& stop)
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
  /// Bottleneck matching between two compositions.
  double hop_between(const Counts& a, const Counts& b);
  /// The same state for all that differ only by an exchange of twin classes: a and b sorted together.
  void make_canonical(Counts& a, Counts& b) const;

 private:
  bool measure_hops(const std::function<bool()>& stop);
  bool measure_sync(const DeviceClasses& classes, const std::function<bool()>& stop);
  void find_interchangeable();
  bool are_interchangeable(int a, int b) const;

  const cost::CommCostModel& model_;
  std::vector<std::vector<int>> members_;
  int count_;
  Eigen::MatrixXd hop_;            // classes × classes, least over pairs of devices
  std::vector<double> min_hop_;  // of each class
  std::vector<std::vector<double>>
      sync_prefix_;                      // [class · n + device][k]: sum of the k least syncs to the class
  std::vector<std::vector<int>> interchangeable_classes_;  // sets of more than one
  cost::BottleneckMatcher matcher_;
};

}  // namespace dtfm::search
