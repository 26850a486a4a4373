#include "planner/search/comm_cost/random_placement.hpp"

#include <numeric>

namespace dtfm::search {

Placement placement_of(const cost::CommCostModel& model, std::span<const int> order) {
  Placement placement(model.stages, model.replicas);
  std::size_t next = 0;
  for (int stage = 0; stage < model.stages; ++stage)
    for (int replica = 0; replica < model.replicas; ++replica) placement.at(stage, replica) = order[next++];
  return placement;
}

Placement random_placement(const cost::CommCostModel& model, Rng& rng) {
  std::vector<int> order(static_cast<std::size_t>(model.devices()));
  std::iota(order.begin(), order.end(), 0);
  rng.shuffle(std::span<int>(order));
  return placement_of(model, order);
}

}  // namespace dtfm::search
