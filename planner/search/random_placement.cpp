#include "planner/search/random_placement.hpp"

#include <numeric>

namespace dtfm {

Placement placement_of(const CommCostModel& model, std::span<const int> order) {
  Placement placement(model.stages, model.replicas);
  std::size_t next = 0;
  for (int stage = 0; stage < model.stages; ++stage)
    for (int replica = 0; replica < model.replicas; ++replica) placement.at(stage, replica) = order[next++];
  return placement;
}

Placement random_placement(const CommCostModel& model, Rng& rng) {
  std::vector<int> order(static_cast<std::size_t>(model.devices()));
  std::iota(order.begin(), order.end(), 0);
  rng.shuffle(std::span<int>(order));
  return placement_of(model, order);
}

}  // namespace dtfm
