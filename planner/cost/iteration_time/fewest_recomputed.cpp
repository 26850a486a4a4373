#include "planner/cost/iteration_time/fewest_recomputed.hpp"

#include <algorithm>

#include "core/base/index.hpp"
#include "core/base/infinity.hpp"

namespace dtfm::cost {

double least_memory(const Topology& topology, const std::vector<int>& devices) {
  double least = infinity;
  for (const int device : devices)
    if (const int gpu = topology.devices[at(device)].gpu; gpu >= 0)
      least = std::min(least, topology.gpus[at(gpu)].memory.value());
  return least;
}

int fewest_recomputed(const StageCosts& costs, std::span<const std::pair<int, int>> chunks, int replicas,
                      const InFlightMicroBatches& held, double capacity) {
  std::vector<StageNeeds> needs(chunks.size());
  const auto bytes = [&](int count) {
    for (std::size_t i = 0; i < chunks.size(); ++i)
      needs[i] = costs.needs(chunks[i], replicas, std::min(count, chunks[i].second - chunks[i].first));
    return held.max_bytes(needs);
  };
  const auto fits = [&](int count) { return bytes(count) <= capacity; };
  int most = 0;
  for (const auto& [first, end] : chunks) most = std::max(most, end - first);
  if (fits(0)) return 0;
  const bool offloads = traits(costs.job().execution.recomputation).offloads;
  // Of several chunks, some may have one micro-batch in flight: offloading those needs more memory.
  const bool falls = costs.memory().recomputing_saves() && !(offloads && chunks.size() > 1);
  for (int count = 1; count < most && !falls; ++count)
    if (fits(count)) return count;
  if (!fits(most)) return offloads && bytes(0) < bytes(most) ? 0 : most;
  if (!falls) return most;
  int too_few = 0, enough = most;
  while (enough - too_few > 1) {
    const int middle = (too_few + enough) / 2;
    (fits(middle) ? enough : too_few) = middle;
  }
  return enough;
}

}  // namespace dtfm::cost
