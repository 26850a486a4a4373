#include "planner/search/comm_cost/block_initial_placements.hpp"

#include <algorithm>

#include "planner/search/comm_cost/strategy.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random_networks.hpp"
#include "tests/support/search_result.hpp"

using namespace dtfm;
using namespace dtfm::cost;
using namespace dtfm::search;

namespace {

bool never() {
  return false;
}

/// `class_of[d]` is the cluster of device d. Hops cost `within` or `between`; synchronization costs the
/// distance of the clusters.
CommCostModel clustered_model(int stages, int replicas, const std::vector<int>& class_of, double within,
                              double between) {
  CommCostModel model = empty_model(stages, replicas);
  for (int a = 0; a < model.devices(); ++a)
    for (int b = 0; b < model.devices(); ++b) {
      if (a == b) continue;
      model.hop(a, b) = class_of[at(a)] == class_of[at(b)] ? within : between;
      model.sync(a, b) = std::abs(class_of[at(a)] - class_of[at(b)]);
    }
  return model;
}

DeviceClasses make_classes(const std::vector<int>& class_of) {
  return {class_of, *std::max_element(class_of.begin(), class_of.end()) + 1};
}

}  // namespace

// Four stages of two pipelines over clusters of 4, 2 and 2 devices, where synchronization costs the distance
// of the clusters. Not all hops can be within clusters. If one is between clusters, either both pipelines go
// from cluster 0 to 1 and 2 there (1 + 10 + 1, synchronization of 0 and 1: 13), or one stays in cluster 0
// (the same, but synchronization of 2: 14).
TEST_CASE("pipelines stay in their clusters as long as possible") {
  const std::vector<int> class_of{0, 0, 0, 0, 1, 1, 2, 2};
  const CommCostModel model = clustered_model(4, 2, class_of, 1, 10);
  const auto starts = block_initial_placements(model, make_classes(class_of), 4, {1, nullptr, never});
  REQUIRE_FALSE(starts.empty());
  const auto best = std::min_element(
      starts.begin(), starts.end(),
      [](const DeployedPlacement& a, const DeployedPlacement& b) { return a.cost < b.cost; });
  CHECK(best->cost == 13);
}

// With two clusters and two stages, every partition consists of blocks, and a pipeline that leaves a cluster
// has only one other to go to. The estimate is therefore exact, and so is the best of all cuts.
TEST_CASE("with two clusters the best blocks are the optimum of an exhaustive search") {
  for (int first = 1; first <= 9; ++first) {
    CAPTURE(first);
    std::vector<int> class_of(10, 1);
    std::fill_n(class_of.begin(), first, 0);
    const CommCostModel model = clustered_model(2, 5, class_of, 0.5, 3);
    const double optimum = search_comm_cost(model, "exhaustive", SearchOptions()).cost.total();
    double least = 1e300;
    for (const DeployedPlacement& start :
         block_initial_placements(model, make_classes(class_of), 4, {1, nullptr, never}))
      least = std::min(least, start.cost);
    CHECK(least == Approx(optimum).epsilon(1e-12));
  }
}

TEST_CASE("block placements are deployed partitions for any size and any clusters") {
  for (const auto& [stages, replicas] : {std::pair{1, 1}, std::pair{1, 7}, std::pair{7, 1}, std::pair{5, 7},
                                         std::pair{12, 3}, std::pair{40, 2}}) {
    for (const Network network : all_networks) {
      CAPTURE(stages, replicas, static_cast<int>(network));
      Rng rng = Rng::for_task(4, static_cast<std::uint64_t>(network));
      const CommCostModel model = random_model(rng, network, stages, replicas);
      const Dendrogram tree = cluster_devices(model);
      for (const int count : {1, 2, 5, tree.natural_count()}) {
        if (count > model.devices()) continue;
        for (const DeployedPlacement& start :
             block_initial_placements(model, tree.cut(count), 3, {1, nullptr, never})) {
          CHECK(is_permutation_of_devices(start.placement, model.devices()));
          CHECK(start.cost == comm_cost(model, start.placement).total());
        }
      }
    }
  }
}

// Three pairs with hops of 1 within and of at least 10 between: there are three natural clusters.
TEST_CASE("the number of natural clusters is detected") {
  const CommCostModel pairs = clustered_model(3, 2, {0, 0, 1, 1, 2, 2}, 1, 10);
  CHECK(cluster_devices(pairs).natural_count() == 3);
  CommCostModel two = clustered_model(4, 2, {0, 0, 0, 0, 1, 1, 1, 1}, 1, 10);
  two.hop(0, 1) = two.hop(1, 0) = 0.9;
  CHECK(cluster_devices(two).natural_count() == 2);
}
