// The same problem with blocks of similar devices in place of devices: fewer, larger moves.
#pragma once

#include <vector>

#include "planner/cost/comm_cost.hpp"
#include "planner/search/device_classes.hpp"

namespace dtfm {

struct CoarseProblem {
  CommCostModel model;                   // of the blocks; the diagonal of `sync` is the exchange inside one
  std::vector<std::vector<int>> blocks;  // devices, all blocks of one size

  /// Every block by its devices.
  Placement expanded(const Placement& placement) const;
};

/// Blocks are `size` neighbours in the order of `clusters`; `size` divides the replicas. Of a block, the
/// average member's exchange and the slowest pair of the best matching stand for all.
CoarseProblem coarsened(const CommCostModel& model, const Dendrogram& clusters, int size);

}  // namespace dtfm
