#include <vector>

#include "simulator/swarm/butterfly.hpp"
#include "simulator/swarm/swarm_costs.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/simulated.hpp"

using namespace dtfm;

namespace {

constexpr double bytes = 8e8;
const std::vector<int> members{0, 1, 2, 3};

Problem problem_of(const std::vector<int>& per_site, const Link& inside, const Link& between) {
  return {flat_topology(per_site, inside, between), chain_job(1, 1, 1), Calibration{1, 0, 1, 0}};
}

}  // namespace

// G = 4 peers over pairs of 1e8 B/s: each has 3e8 B/s, 2 V (G − 1) ÷ (G b) = 4 s; a pair carries V · 2 ÷ 4: 4
// s.
TEST_CASE("between equal pairs an all-reduce takes as long as each of them") {
  const Problem problem = problem_of({4}, link_of(0, 1e8), link_of(0, 1e8));
  const Butterfly exchange = butterfly(bytes, exchange_rates(problem, members));
  CHECK(exchange.seconds == Approx(4));
  CHECK(slowest_pair_s(problem, members, bytes, exchange.shards) == Approx(4));
}

// Two sites of two: a peer has 1e9 + 2e8 B/s, so all together could be through after 2 · 8e8 · 3 ÷ (4
// · 1.2e9) = 1 s; but half of V goes over every pair between the sites.
TEST_CASE("a slow pair holds an all-reduce up, whatever its peers can move elsewhere") {
  Problem problem = problem_of({2, 2}, link_of(0, 1e9), link_of(0, 1e8));
  const Butterfly exchange = butterfly(bytes, exchange_rates(problem, members));
  CHECK(exchange.seconds == Approx(1));
  CHECK(slowest_pair_s(problem, members, bytes, exchange.shards) == Approx(4));
  // All messages of a sender over that entry share it: two pairs.
  std::get<RuleLinks>(problem.topology.links).links[1].shared_by_sender = true;
  CHECK(slowest_pair_s(problem, members, bytes, exchange.shards) == Approx(8));
}
