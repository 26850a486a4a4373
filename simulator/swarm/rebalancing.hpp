// Which stage a joining peer serves, and which peer moves to another stage.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/infinity.hpp"
#include "simulator/swarm/peers.hpp"

namespace dtfm::sim {

struct StagePeers {
  int serving = 0, fetching = 0;  // numbers of peers
  double requests = 0;            // that wait or are computed, and blocked micro-batches
  double rate = 0;  // samples per second of the peers that serve the stage or are fetching its state

  bool is_empty() const { return serving + fetching == 0; }
};

/// `blocked`: number of blocked micro-batches of each stage.
inline std::vector<StagePeers> stage_loads(const Peers& peers, const std::vector<int>& blocked) {
  std::vector<StagePeers> loads;
  for (const int count : blocked) loads.push_back({.requests = static_cast<double>(count)});
  for (int device = 0; device < peers.size(); ++device) {
    const Peer& peer = peers[device];
    if (!peer.serving && !peer.fetching) continue;
    StagePeers& load = loads[at(peer.stage)];
    ++(peer.serving ? load.serving : load.fetching);
    load.requests += peer.load();
    load.rate += peers.rate(device, peer.stage);
  }
  return loads;
}

/// The stage with the most requests, in total or `by_peer`. A stage without serving or fetching peers counts
/// as more loaded than any other.
inline int most_loaded_stage(const std::vector<StagePeers>& loads, bool by_peer) {
  const auto load = [&](const StagePeers& it) {
    return it.is_empty() ? infinity : it.requests / (by_peer ? it.serving + it.fetching : 1);
  };
  return static_cast<int>(
      std::max_element(loads.begin(), loads.end(),
                       [&](const StagePeers& a, const StagePeers& b) { return load(a) < load(b); }) -
      loads.begin());
}

/// The least loaded peer of the least loaded stage that can spare one, and the most loaded stage, to which it
/// should move; empty if that is no more loaded. The last peer of a stage is never spared. With
/// `must_be_beneficial`, the stage must remain faster than the most loaded one is now.
inline std::optional<std::pair<int, int>> best_move(const Peers& peers, const std::vector<StagePeers>& loads,
                                                    bool must_be_beneficial) {
  const int target = most_loaded_stage(loads, false);
  const StagePeers& most = loads[at(target)];
  const auto spare_peer = [&](int stage, const StagePeers& load) {
    int spare = no_index;
    for (int device = 0; device < peers.size(); ++device) {
      if (!peers[device].serves(stage)) continue;
      if (must_be_beneficial && !(load.rate - peers.rate(device, stage) > most.rate)) continue;
      if (spare == no_index || peers[device].load() < peers[spare].load()) spare = device;
    }
    return spare;
  };
  int mover = no_index;
  double min_load = infinity;
  for (int stage = 0; at(stage) < loads.size(); ++stage) {
    const StagePeers& load = loads[at(stage)];
    if (stage == target || load.serving < 2 || load.requests >= min_load) continue;
    const int spare = spare_peer(stage, load);
    if (spare == no_index) continue;
    mover = spare;
    min_load = load.requests;
  }
  if (mover == no_index || !(most.is_empty() || min_load < most.requests)) return std::nullopt;
  return std::pair(mover, target);
}

}  // namespace dtfm::sim
