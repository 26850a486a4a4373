#include "planner/cost/bounds/spanning_tree_bound.hpp"

#include <algorithm>
#include <limits>

#include "core/base/index.hpp"
#include "core/base/rng.hpp"
#include "tests/support/catch.hpp"

using namespace dtfm;
using namespace dtfm::cost;

// Two sites of 3 and 2 devices, with costs of 1 inside and 10 between: up to 3 devices need no link between
// sites.
TEST_CASE("devices of one site connect without the links between sites") {
  const SpanningTreeBound bound(5, [](int a, int b) { return (a < 3) == (b < 3) ? 1.0 : 10.0; });
  CHECK(bound.max_edge(1) == 0);
  CHECK(bound.sum(1) == 0);
  CHECK(bound.max_edge(3) == 1);
  CHECK(bound.sum(3) == 2);
  CHECK(bound.max_edge(4) == 10);
  CHECK(bound.sum(4) == 12);
  CHECK(bound.sum(5) == 13);
}

TEST_CASE("no path over the same number of devices is shorter or has a shorter longest hop") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(seed, 0);
    const int count = 2 + static_cast<int>(rng.below(5));
    std::vector<double> costs(at(count * count));
    for (int a = 0; a < count; ++a)
      for (int b = 0; b < a; ++b)
        costs[at(a * count + b)] = costs[at(b * count + a)] = rng.below(4) + rng.below(2) * rng.uniform();
    const SpanningTreeBound bound(count, [&](int a, int b) { return costs[at(a * count + b)]; });
    std::vector<int> path(at(count));
    for (int i = 0; i < count; ++i) path[at(i)] = i;
    std::vector<double> min_sum(at(count + 1), std::numeric_limits<double>::infinity()),
        min_bottleneck = min_sum;
    do {
      double sum = 0, max_edge = 0;
      for (int n = 2; n <= count; ++n) {
        const double cost = costs[at(path[at(n - 2)] * count + path[at(n - 1)])];
        sum += cost;
        max_edge = std::max(max_edge, cost);
        min_sum[at(n)] = std::min(min_sum[at(n)], sum);
        min_bottleneck[at(n)] = std::min(min_bottleneck[at(n)], max_edge);
      }
    } while (std::next_permutation(path.begin(), path.end()));
    for (int n = 2; n <= count; ++n) {
      REQUIRE(bound.sum(n) <= min_sum[at(n)] + 1e-12);
      REQUIRE(bound.max_edge(n) <= min_bottleneck[at(n)]);
    }
    REQUIRE(bound.sum(2) == Approx(min_sum[2]));  // the cheapest pair
  }
}
