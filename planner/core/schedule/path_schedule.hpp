// Micro-batches that each have a way of their own over the devices of a plan (Schedule::paths).
#pragma once

#include <vector>

namespace dtfm {

/// A stage of a pipeline of a plan, which has one device.
struct Visit {
  int pipeline = 0, stage = 0;

  friend bool operator==(const Visit&, const Visit&) = default;
};

/// Which places compute each micro-batch of an iteration, and whose turn it is. A path may have places of any
/// pipelines, in any order, and need not have all layers; nor need the pipelines: a plan says who has which.
struct PathSchedule {
  std::vector<std::vector<Visit>> paths;  // of each micro-batch, in the order of its forward; none twice
  /// Micro-batches, each as often as it is computed: its forward along its path, then its backward along the
  /// same path in reverse. Every device computes in this order.
  std::vector<int> order;
};

}  // namespace dtfm
