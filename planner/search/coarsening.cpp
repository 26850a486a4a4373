#include "planner/search/coarsening.hpp"

#include "planner/core/error.hpp"
#include "planner/cost/bottleneck_matching.hpp"

namespace dtfm {

CoarseProblem coarsened(const CommCostModel& model, const Dendrogram& clusters, int size) {
  DTFM_ASSERT(size > 0 && model.stages % size == 0);
  const int n = model.devices() / size;
  CoarseProblem coarse{{model.stages / size, model.replicas, Eigen::MatrixXd::Zero(n, n),
                        Eigen::MatrixXd::Zero(n, n)},
                       {}};
  const std::vector<int> order = clusters.leaf_order();
  for (auto first = order.begin(); first != order.end(); first += size)
    coarse.blocks.emplace_back(first, first + size);
  BottleneckMatcher matcher(size);
  for (int a = 0; a < n; ++a)
    for (int b = 0; b <= a; ++b) {
      const auto& block = coarse.blocks[static_cast<std::size_t>(a)];
      const auto& other = coarse.blocks[static_cast<std::size_t>(b)];
      double exchange = 0;
      for (const int device : block)
        for (const int peer : other) exchange += model.sync(peer, device);
      coarse.model.sync(a, b) = coarse.model.sync(b, a) = a==b?0:exchange / size/size;
      if (a != b) coarse.model.hop(a, b) = coarse.model.hop(b, a) = matching_cost(model, block, other, matcher);
    }
  return coarse;
}

Placement CoarseProblem::expanded(const Placement& placement) const {
  const int size = static_cast<int>(blocks.front().size());
  Placement fine(placement.stages() * size, placement.replicas());
  for (int stage = 0; stage < placement.stages(); ++stage)
    for (int replica = 0; replica < placement.replicas(); ++replica)
      for (int i = 0; i < size; ++i)
        fine.at(stage * size + i, replica) =
            blocks[static_cast<std::size_t>(placement.at(stage, replica))][static_cast<std::size_t>(i)];
  return fine;
}

}  // namespace dtfm
