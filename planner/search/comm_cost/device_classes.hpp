// Which devices may be treated alike: interchangeable ones, and clusters of similar ones.
#pragma once

#include <functional>
#include <vector>

#include "planner/cost/comm_cost/comm_cost.hpp"

namespace dtfm::search {

/// A partition of the devices: `of[d]` is the class of device d, numbered from 0 in the order of first
/// members.
struct DeviceClasses {
  std::vector<int> class_of;
  int count = 0;

  std::vector<std::vector<int>> members() const;
};

/// Two devices are interchangeable when swapping them changes no cost: equal sync and hop to every third
/// device. That is an equivalence relation, and all pairs inside a class are equal too. When `stop` says so
/// half-way, the devices not looked at are classes of their own.
DeviceClasses interchangeable_devices(const cost::CommCostModel& model, const std::function<bool()>& stop = {});

/// A binary tree of clusters by average linkage over the hop cost.
struct Dendrogram {
  struct Merge {
    int left, right;  // < n: a device; n + i: the cluster of merge i
    double distance;  // s, average hop between the two
  };
  int devices = 0;
  std::vector<Merge> merges;  // n − 1, each after the merges of its halves, and no closer than those

  /// The devices from left to right: similar ones are neighbours, the tighter half of each cluster comes
  /// first.
  std::vector<int> leaf_order() const;
  /// The partition into `count` clusters.
  DeviceClasses cut(int count) const;
  /// How many clusters there are where the next merge is so much farther than the one before as nowhere else:
  /// 2 … half the devices.
  int natural_count() const;
};

/// When `stop` says so half-way, what is left is joined at infinite distance, in no order that means
/// anything.
Dendrogram cluster_devices(const cost::CommCostModel& model, const std::function<bool()>& stop = {});

}  // namespace dtfm::search
