// Partitions of the devices: into interchangeable ones, and into clusters of similar ones.
#pragma once

#include <vector>

#include "core/base/stop.hpp"
#include "planner/cost/comm_cost/comm_cost.hpp"

namespace dtfm::search {

/// A partition of the devices: `class_of[d]` is the class of device d. Classes are numbered from 0 in the
/// order of their first members.
struct DeviceClasses {
  std::vector<int> class_of;
  int count = 0;

  std::vector<std::vector<int>> members() const;
};

/// Two devices are interchangeable if swapping them changes no cost: they have equal sync and hop to every
/// third device. This is an equivalence relation, and all pairs inside a class have equal costs too. Once
/// `stop` returns true, the remaining devices get classes of their own.
DeviceClasses interchangeable_devices(const cost::CommCostModel& model, const StopFunction& stop = {});

/// A binary tree of clusters by average linkage over the hop cost.
struct Dendrogram {
  struct Merge {
    int left, right;  // < n: a device; n + i: the cluster of merge i
    double distance;  // s, average hop between the two clusters
  };
  int devices = 0;
  std::vector<Merge> merges;  // n − 1, each after the merges of its parts, at no smaller distance

  /// The devices from left to right: similar ones are neighbours, and the tighter part of each cluster comes
  /// first.
  std::vector<int> leaf_order() const;
  /// The partition into `count` clusters.
  DeviceClasses cut(int count) const;
  /// Number of clusters, 2 … half the devices, at which the next merge distance is largest relative to the
  /// one before.
  int natural_count() const;
};

/// Once `stop` returns true, the remaining clusters are joined at infinite distance in arbitrary order.
Dendrogram cluster_devices(const cost::CommCostModel& model, const StopFunction& stop = {});

}  // namespace dtfm::search
