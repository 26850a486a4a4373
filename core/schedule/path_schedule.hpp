// Paths of micro-batches over the devices of a plan, where each micro-batch has its own (schedule `paths`).
#pragma once

#include <vector>

namespace dtfm {

/// A stage of a pipeline of a plan, which has one device.
struct Visit {
  int pipeline = 0, stage = 0;

  friend bool operator==(const Visit&, const Visit&) = default;
};

/// The path of each micro-batch of an iteration, and the order in which devices compute. A path may visit
/// stages of any pipelines in any order. Neither a path nor a pipeline needs to contain all layers; the plan
/// gives the layers of each stage.
struct PathSchedule {
  std::vector<std::vector<Visit>> paths;  // [micro-batch]: distinct visits, in the order of the forward
  /// A micro-batch number for each computation. The k-th occurrence of a micro-batch is its k-th computation:
  /// first the forward along its path, then the backward along the reversed path. Every device computes in
  /// this order.
  std::vector<int> order;
};

}  // namespace dtfm
