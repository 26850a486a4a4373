// Assignment of peers to stages, and of shards to peers.
#include "simulator/swarm/assignment.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/base/index.hpp"
#include "core/base/rng.hpp"
#include "simulator/swarm/butterfly.hpp"
#include "tests/support/catch.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

/// Returns the best throughput over all assignments of the peers.
double exhaustive(const std::vector<std::vector<double>>& rates, std::size_t peer,
                  std::vector<double>& speeds) {
  if (peer == rates.size()) return *std::min_element(speeds.begin(), speeds.end());
  double best = 0;
  for (std::size_t stage = 0; stage < speeds.size(); ++stage) {
    const double before = speeds[stage];
    speeds[stage] += rates[peer][stage];
    best = std::max(best, exhaustive(rates, peer + 1, speeds));
    speeds[stage] = before;
  }
  return best;
}

std::vector<PeerKind> random_kinds(Rng& rng, std::uint32_t max_kinds) {
  std::vector<PeerKind> kinds(1 + rng.below(max_kinds));
  const std::size_t stages = 1 + rng.below(3);
  for (PeerKind& kind : kinds) {
    kind.count = static_cast<int>(rng.below(kinds.size() == 1 ? 8 : 4));
    for (std::size_t stage = 0; stage < stages; ++stage) kind.rates.push_back(0.1 + rng.uniform());
  }
  return kinds;
}

double exhaustive(const std::vector<PeerKind>& kinds) {
  std::vector<std::vector<double>> rates;
  for (const PeerKind& kind : kinds) rates.insert(rates.end(), at(kind.count), kind.rates);
  std::vector<double> speeds(kinds.front().rates.size());
  return exhaustive(rates, 0, speeds);
}

/// Returns the minimum over w of the largest V (1 + (G − 2) w) ÷ b of G = 3, by trying all w on a grid.
double exhaustive_butterfly(const std::vector<double>& bandwidths) {
  double best = std::numeric_limits<double>::infinity();
  constexpr int grid = 300;
  for (int a = 0; a <= grid; ++a)
    for (int b = 0; a + b <= grid; ++b) {
      const std::vector<double> shards = {a / double{grid}, b / double{grid}, (grid - a - b) / double{grid}};
      double slowest = 0;
      for (std::size_t i = 0; i < 3; ++i)
        slowest = std::max(slowest, (1 + shards[i]) / bandwidths[i]);
      best = std::min(best, slowest);
    }
  return best;
}

}  // namespace

TEST_CASE("the best assignment equals the exhaustive optimum") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    Rng rng = Rng::for_task(seed, 0);
    const std::vector<PeerKind> kinds = random_kinds(rng, 3);
    const Assignment best = best_assignment(kinds);
    CHECK(best.is_optimal);
    CHECK(best.samples_per_s == Approx(exhaustive(kinds)));
    CHECK(best.bound == best.samples_per_s);
    std::vector<double> speeds(kinds.front().rates.size());
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
      int assigned = 0;
      for (std::size_t stage = 0; stage < speeds.size(); ++stage) {
        assigned += best.counts[stage][kind];
        speeds[stage] += best.counts[stage][kind] * kinds[kind].rates[stage];
      }
      CHECK(assigned <= kinds[kind].count);
    }
    CHECK(*std::min_element(speeds.begin(), speeds.end()) == Approx(best.samples_per_s));
  }
}

// 10 peers with rates 1 and 1/2 in the two stages: a split of 3 and 7 gives 3, and so does 4 and 6, the
// minimum of (4, 3).
TEST_CASE("peers of one kind have the assignment derived by hand") {
  const std::vector<PeerKind> kinds = {{10, {1, 0.5}}};
  const Assignment best = best_assignment(kinds);
  CHECK(best.samples_per_s == 3);
  CHECK(best.counts[0][0] + best.counts[1][0] == 10);
}

// 40 peers of rate 1 and 40 of rate 3 over four equal stages: the bound is 160 ÷ 4, which is reached.
TEST_CASE("many peers of several kinds have an upper bound") {
  const std::vector<PeerKind> kinds = {{40, {1, 1, 1, 1}}, {40, {3, 3, 3, 3}}};
  const Assignment found = best_assignment(kinds);
  CHECK_FALSE(found.is_optimal);
  CHECK(found.bound == Approx(40));
  CHECK(found.samples_per_s == Approx(40));
  // The bound is never below what peers can achieve.
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    INFO("seed " << seed);
    Rng rng = Rng::for_task(seed, 5);
    std::vector<PeerKind> many = random_kinds(rng, 3);
    for (PeerKind& kind : many) kind.count = 100 + static_cast<int>(rng.below(100));
    const Assignment it = best_assignment(many);
    CHECK(it.samples_per_s <= it.bound * (1 + 1e-12));
  }
}

// With w = 1/G each peer sends V (1 + (G − 2) ÷ G) = 2 V (G − 1) ÷ G.
TEST_CASE("an all-reduce among equal peers has equal shards") {
  for (const int peers : {2, 3, 8, 100}) {
    const std::vector<double> bandwidths(at(peers), 25.0);
    const Butterfly it = butterfly(1000, bandwidths);
    CHECK(it.seconds == Approx(2.0 * 1000 * (peers - 1) / (peers * 25.0)).epsilon(1e-12));
    for (const double shard : it.shards) CHECK(shard == Approx(1.0 / peers).epsilon(1e-12));
  }
  CHECK(butterfly(1000, std::vector<double>{5}).seconds == 0);
}

TEST_CASE("shards are weighted to make the slowest peer as fast as possible") {
  // Bandwidths 1 and 10, 10: T = (3 − 2 + 3) ÷ 21 would give the slow peer less time than it needs without a
  // shard, 1 ÷ 1. It therefore determines the time, and the others share the summation.
  CHECK(butterfly(1, std::vector<double>{1, 10, 10}).seconds == 1);
  CHECK(butterfly(1, std::vector<double>{1, 10, 10}).shards[0] == 0);
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    INFO("seed " << seed);
    Rng rng = Rng::for_task(seed, 2);
    const std::vector<double> bandwidths = {0.2 + rng.uniform(), 0.2 + rng.uniform(), 0.2 + rng.uniform()};
    const Butterfly it = butterfly(1, bandwidths);
    CHECK(std::accumulate(it.shards.begin(), it.shards.end(), 0.0) == Approx(1));
    double slowest = 0;
    for (std::size_t i = 0; i < 3; ++i)
      slowest = std::max(slowest, (1 + it.shards[i]) / bandwidths[i]);
    CHECK(slowest == Approx(it.seconds));
    CHECK(exhaustive_butterfly(bandwidths) >= it.seconds * (1 - 1e-12));
    CHECK(exhaustive_butterfly(bandwidths) <= it.seconds * 1.02);
  }
}
