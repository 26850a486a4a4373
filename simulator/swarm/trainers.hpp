// The trainers of a swarm, and their views of which peers serve which stages.
#pragma once

#include <optional>
#include <vector>

#include "simulator/swarm/announcements.hpp"
#include "simulator/swarm/swarm_context.hpp"
#include "simulator/swarm/wiring.hpp"

namespace dtfm::sim {

class Trainers {
 public:
  static constexpr double refresh_period_s = 30;

  /// The arguments must outlive this.
  Trainers(SwarmContext& run, Announcements& announcements) : run_(run), announcements_(announcements) {}

  /// All trainers read the announcements, now and then every 30 s, with random phases.
  void start() {
    const int devices_each = run_.setup.transport == SwarmTransport::relay ? 1 : 4;
    const int count = run_.setup.trainers.value_or((run_.devices() + devices_each - 1) / devices_each);
    const std::vector<std::vector<int>> of_site = devices_by_site();
    const std::size_t stages = at(run_.setup.stages);
    for (int i = 0; i < count; ++i) {
      const std::vector<int>& site = of_site[at(i) % of_site.size()];
      trainers_.push_back({site[at(i) / of_site.size() % site.size()],
                           Rng::for_task(run_.seed, static_cast<std::uint64_t>(i)),
                           std::vector<Wiring>(stages, Wiring(run_.devices())),
                           std::vector<int>(stages, -1)});
      Trainer& trainer = trainers_.back();
      run_.push(trainer.rng.uniform() * refresh_period_s, {QueueEvent::Kind::refresh, i});
      for (int stage = 0; stage < run_.setup.stages; ++stage) refresh(trainer, stage);
    }
  }
  int count() const { return static_cast<int>(trainers_.size()); }
  int device(int trainer) const { return trainers_[at(trainer)].device; }

  /// Returns the peer of the stage to ask for a task of `size`; empty if the trainer knows none. If it does
  /// not know a peer, it reads the announcements at once.
  std::optional<int> pick(int number, int stage, double size) {
    Trainer& trainer = trainers_[at(number)];
    Wiring& wiring = trainer.wirings[at(stage)];
    if (wiring.empty()) refresh(trainer, stage);
    return wiring.pick(size, trainer.rng);
  }
  /// Returns a peer other than `peer`, which has computed a task of `size`, to verify it.
  std::optional<int> pick_verifier(int number, int stage, double size, int peer) {
    return wiring(number, stage).pick(size, trainers_[at(number)].rng, peer);
  }
  /// Records that the peer has replied to a task of `size` after `seconds`.
  void measure(int trainer, int stage, int peer, double size, double seconds) {
    wiring(trainer, stage).measure(peer, size, seconds);
  }
  /// The peer has failed, so that the trainer does not ask it again until it has announced itself anew.
  void ban(int trainer, int stage, int peer) {
    if (wiring(trainer, stage).ban(peer, run_.now)) ++run_.report.bans;
  }
  void refresh(int number) {
    for (int stage = 0; stage < run_.setup.stages; ++stage) refresh(trainers_[at(number)], stage);
    run_.push(run_.now + refresh_period_s, {QueueEvent::Kind::refresh, number});
  }

 private:
  struct Trainer {
    int device = 0;
    Rng rng;
    std::vector<Wiring> wirings;     // [stage]
    std::vector<int> seen_versions;  // [stage]: version of the announcements at the last refresh
  };
  /// The devices of each site that has some.
  std::vector<std::vector<int>> devices_by_site() const {
    const Topology& topology = run_.problem.topology;
    std::vector<std::vector<int>> of_site(topology.sites.size());
    for (int device = 0; device < topology.size(); ++device)
      of_site[at(topology.devices[at(device)].site)].push_back(device);
    std::erase_if(of_site, [](const std::vector<int>& site) { return site.empty(); });
    return of_site;
  }
  Wiring& wiring(int trainer, int stage) { return trainers_[at(trainer)].wirings[at(stage)]; }
  /// Reads the announcements of a stage, if they may have changed.
  void refresh(Trainer& trainer, int stage) {
    Wiring& wiring = trainer.wirings[at(stage)];
    int& seen = trainer.seen_versions[at(stage)];
    if (seen == announcements_.version(stage) && !announcements_.has_ended(stage) && !wiring.has_bans())
      return;
    wiring.refresh(announcements_.valid(stage, run_.now), trainer.rng);
    seen = announcements_.version(stage);
  }

  SwarmContext& run_;
  Announcements& announcements_;
  std::vector<Trainer> trainers_;
};

}  // namespace dtfm::sim
