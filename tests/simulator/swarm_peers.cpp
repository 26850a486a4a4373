// What the peers of a swarm compute, and which of them move.
#include "simulator/swarm/peers.hpp"

#include <vector>

#include "simulator/swarm/rebalancing.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/swarms.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

/// Peers that serve the given stages. A stage has one layer: a forward pass takes 1 s, a backward pass, which
/// recomputes it, 3 s.
struct SmallPeers {
  Problem problem;
  SwarmSetup setup;
  SwarmOptions options;
  Scenario scenario;
  SwarmContext run;
  Peers peers;

  explicit SmallPeers(const std::vector<int>& stages)
      : problem{flat_topology({static_cast<int>(stages.size())}, link_of(0, 1e9), link_of(0, 1e9)),
                swarm_job(2, 1, 10, 10, 4),
                {}},
        setup{.stages = 2},
        run{problem, setup, scenario, options},
        peers(run) {
    for (int device = 0; device < peers.size(); ++device) {
      peers[device].stage = stages[at(device)];
      peers[device].serving = true;
    }
  }
  /// Advances the time to the next event, and returns whether it ends a computation.
  bool finish_next() {
    run.now = run.queue.next_date();
    return peers.finish(run.queue.pop());
  }
};

}  // namespace

TEST_CASE("a peer computes one request after the other, and the result of a cancelled one is lost") {
  SmallPeers swarm({0});
  Peer& peer = swarm.peers[0];
  swarm.peers.enqueue(0, {5, false});
  for (const int slot : {6, 7}) swarm.peers.enqueue(0, {slot, true});
  CHECK(peer.load() == 3);
  swarm.peers.cancel(0, 5);
  swarm.peers.cancel(0, 6);
  CHECK(peer.load() == 2);
  REQUIRE(swarm.finish_next());
  CHECK(swarm.run.now == 1);
  CHECK(peer.current.slot == no_index);
  CHECK(swarm.run.report.lost_work_s == 1);
  swarm.peers.serve_next(0);
  REQUIRE(swarm.finish_next());
  CHECK(swarm.run.now == 4);
  CHECK(peer.current.slot == 7);
  CHECK(swarm.run.report.lost_work_s == 1);
  CHECK(peer.load() == 0);
}

TEST_CASE("a computation continues at a new speed, and a paused stage starts none") {
  SmallPeers swarm({0});
  swarm.peers.enqueue(0, {5, true});
  swarm.peers.enqueue(0, {6, false});
  swarm.peers.change_speed(0, 0.5);
  CHECK_FALSE(swarm.finish_next());  // the event at 3 s is obsolete
  swarm.peers.pause(0);
  REQUIRE(swarm.finish_next());
  CHECK(swarm.run.now == 6);
  swarm.peers.serve_next(0);
  CHECK_FALSE(swarm.peers[0].busy);
  swarm.peers.resume(0);
  REQUIRE(swarm.finish_next());
  CHECK(swarm.run.now == 8);
}

TEST_CASE("the least loaded peer moves to the most loaded stage if its own remains faster") {
  SmallPeers swarm({0, 0, 1});
  swarm.peers.enqueue(0, {5, false});
  const auto move = [&](const std::vector<int>& blocked, bool must_be_beneficial) {
    return best_move(swarm.peers, stage_loads(swarm.peers, blocked), must_be_beneficial);
  };
  // Stage 0 has one request, stage 1 the blocked ones.
  CHECK(move({0, 2}, false) == std::pair(1, 1));
  CHECK_FALSE(move({0, 1}, false));
  // The last peer of stage 1 is not spared.
  CHECK_FALSE(move({9, 0}, false));
  // Without device 1, stage 0 would be as fast as stage 1 is now; it is faster once device 0 is.
  CHECK_FALSE(move({0, 2}, true));
  swarm.peers.change_speed(0, 2);
  CHECK(move({0, 2}, true) == std::pair(1, 1));
  CHECK(most_loaded_stage(stage_loads(swarm.peers, {1, 1}), false) == 0);
  CHECK(most_loaded_stage(stage_loads(swarm.peers, {1, 2}), true) == 1);
}
