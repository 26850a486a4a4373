#include <vector>

#include "core/plan/compression.hpp"
#include "simulator/swarm/butterfly.hpp"
#include "simulator/swarm/swarm_costs.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/swarms.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

constexpr double bytes = 8e8;
const std::vector<int> members{0, 1, 2, 3};

Problem problem_of(const std::vector<int>& per_site, const Link& inside, const Link& between) {
  return {flat_topology(per_site, inside, between), chain_job(1, 1, 1), Calibration{1, 0, 1, 0}};
}

}  // namespace

// Memory that moves 1e7 B/s reads and writes 41/32 of 8e6 bytes in 1.025 s (4 bits of 16, and scales), and
// 1537/1024 of 1e7 bytes of gradients (8 bits of 16, and scales) in 1.501 s.
TEST_CASE("peers decompress what they receive and compress what they send") {
  Problem problem{flat_topology({2}, link_of(0, 1e8), link_of(0, 1e8)), swarm_job(3, 1, 8e6, 5e6, 4),
                  Calibration{1, 0, 1, 0}};
  problem.topology.edit().gpus.front().memory_bandwidth = BitsPerSecond(8e7);
  const SwarmCosts plain(problem, 3);
  compress_activations(problem.job, {CompressionMethod::quantize_4_bit});
  compress_gradients(problem.job, {CompressionMethod::quantize_8_bit});
  const SwarmCosts costs(problem, 3);
  CHECK(costs.visit_bytes(0, false).output == Approx(8e6 * 9 / 32));
  for (const int stage : {0, 1, 2}) {
    // Inputs and losses are not compressed.
    const int in = stage > 0 ? 1 : 0, out = stage < 2 ? 1 : 0;
    CHECK(costs.forward_s(0, stage) == Approx(plain.forward_s(0, stage) + (in + out) * 1.025));
    CHECK(costs.backward_s(0, stage) == Approx(plain.backward_s(0, stage) + (2 * in + out) * 1.025));
    CHECK(costs.gradient_bytes(stage) == Approx(1e7 * 513 / 1024));
    CHECK(costs.gradient_compression_s(stage) == Approx(1537 / 1024.0));
  }
}

// G = 4 peers with pairwise links of 1e8 B/s: each has 3e8 B/s, 2 V (G − 1) ÷ (G b) = 4 s; a pair carries V ·
// 2 ÷ 4: 4 s.
TEST_CASE("between equal pairs an all-reduce takes as long as on each pair") {
  const Problem problem = problem_of({4}, link_of(0, 1e8), link_of(0, 1e8));
  const Butterfly all_reduce = butterfly(bytes, all_reduce_rates(problem, members));
  CHECK(all_reduce.seconds == Approx(4));
  CHECK(slowest_pair_s(problem, members, bytes, all_reduce.shards) == Approx(4));
}

// Two sites of two peers: a peer has 1e9 + 2e8 B/s, so all together could finish in 2 · 8e8 · 3 ÷ (4 · 1.2e9)
// = 1 s; but half of V is sent over every pair between the sites.
TEST_CASE("a slow pair limits an all-reduce whatever its peers can send elsewhere") {
  Problem problem = problem_of({2, 2}, link_of(0, 1e9), link_of(0, 1e8));
  const Butterfly all_reduce = butterfly(bytes, all_reduce_rates(problem, members));
  CHECK(all_reduce.seconds == Approx(1));
  CHECK(slowest_pair_s(problem, members, bytes, all_reduce.shards) == Approx(4));
  // All messages of a sender over that entry share its rate: two pairs.
  std::get<RuleLinks>(problem.topology.edit().links).links[1].shared_by_sender = true;
  CHECK(slowest_pair_s(problem, members, bytes, all_reduce.shards) == Approx(8));
}
