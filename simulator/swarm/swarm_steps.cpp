// Stages: gradients accumulate and are averaged, and the optimizer makes a step.
#include <algorithm>

#include "simulator/engine/clock.hpp"
#include "simulator/swarm/swarm_run.hpp"

namespace dtfm::sim {

void SwarmRun::add_gradient(int number) {
  Slot& slot = slots_[at(number)];
  Stage& stage = stages_[at(slot.stage)];
  const Peer& peer = peers_[at(slot.peer)];
  StageVisit& visit = stage_visit(number, slot.stage);
  const double seconds = now_ - peer.started_at;
  if (visit.gradient_holder != no_peer) {
    report_.lost_work_s += seconds;
    return;
  }
  visit.gradient_holder = slot.peer;
  visit.epoch = stage.epoch;
  slot.spent_s -= seconds;  // a restart does not lose it
  HeldGradients& held = stage.held_by[at(slot.peer)];
  held.samples += costs_.samples();
  held.seconds += seconds;
  stage.held += costs_.samples();
  emit(SwarmEvent::Kind::gradient, slot.number, slot.stage, slot.peer);
  if (stage.held >= problem_.job.training.global_batch && !stage.averaging) begin_averaging(slot.stage);
}

/// Averages all gradients held for the stage among the peers that hold some and all peers that serve it.
void SwarmRun::begin_averaging(int number) {
  Stage& stage = stages_[at(number)];
  std::vector<int> members;
  double update_s = 0;
  for (int device = 0; device < problem_.topology->size(); ++device) {
    const Peer& peer = peers_[at(device)];
    const bool serves = peer.serving && peer.stage == number;
    if (!serves && stage.held_by[at(device)].samples == 0) continue;
    members.push_back(device);
    update_s = std::max(update_s, costs_.update_s(costs_.kind(device), number) / peer.factor);
  }
  if (members != stage.members) plan_all_reduce(number, members);
  stage.averaging_by.swap(stage.held_by);
  std::fill(stage.held_by.begin(), stage.held_by.end(), HeldGradients{});
  stage.held = 0;
  stage.averaging = true;
  stage.step_began = now_;
  ++stage.epoch;
  emit(SwarmEvent::Kind::averaging, -1, number, no_peer);
  for_each_site_pair(number, [&](int from, int to, double) { network_.begin_traffic(from, to, now_); });
  const double seconds = stage.all_reduce_s + update_s + problem_.constants.iteration_overhead_s;
  queue_.push(round_to_tick(now_ + seconds), 0, {QueueEvent::Kind::averaged, number, 0});
}

/// Every pair exchanges two messages, one after the other: shards to be summed, then the sums. This is why
/// latency, overhead and compression count twice.
void SwarmRun::plan_all_reduce(int number, const std::vector<int>& members) {
  Stage& stage = stages_[at(number)];
  const std::size_t sites = problem_.topology->sites.size();
  stage.members = members;
  stage.site_shards.assign(sites, 0);
  stage.site_members.assign(sites, 0);
  stage.all_reduce_s = 0;
  if (members.size() < 2) return;
  const Butterfly all_reduce = butterfly(costs_.gradient_bytes(number), all_reduce_rates(problem_, members));
  double longest = 0;
  for (const int from : members)
    for (const int to : members)
      if (from != to)
        longest = std::max(longest, network_.latency_s(from, to) + network_.overhead_s(from, to));
  const double pairs_s = slowest_pair_s(problem_, members, costs_.gradient_bytes(number), all_reduce.shards);
  stage.all_reduce_s =
      std::max(all_reduce.seconds, pairs_s) + 2 * longest + 2 * costs_.gradient_compression_s(number);
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::size_t site = at(problem_.topology->devices[at(members[i])].site);
    stage.site_shards[site] += all_reduce.shards[i];
    ++stage.site_members[site];
  }
}

/// Peer i sends V (w_i + w_j) bytes to peer j. Calls `use(from, to, bytes)` with the sum over the members of
/// each pair of sites.
template <class Use>
void SwarmRun::for_each_site_pair(int number, const Use& use) const {
  const Stage& stage = stages_[at(number)];
  if (stage.members.size() < 2) return;
  const double bytes = costs_.gradient_bytes(number);
  const int sites = static_cast<int>(problem_.topology->sites.size());
  for (int from = 0; from < sites; ++from)
    for (int to = 0; to < sites; ++to) {
      const double here = stage.site_members[at(from)], there = stage.site_members[at(to)];
      if (here == 0 || there == 0 || (from == to && here < 2)) continue;
      const double shares = from == to
                                ? 2 * (here - 1) * stage.site_shards[at(from)]
                                : there * stage.site_shards[at(from)] + here * stage.site_shards[at(to)];
      use(from, to, bytes * shares);
    }
}

void SwarmRun::on_averaged(int number) {
  Stage& stage = stages_[at(number)];
  for_each_site_pair(number,
                     [&](int from, int to, double bytes) { network_.end_traffic(from, to, bytes, now_); });
  stage.averaging = false;
  long long samples = 0;
  for (HeldGradients& it : stage.averaging_by) {
    samples += it.samples;
    it = {};
  }
  if (samples > 0) {
    stage.accepted += samples;
    if (report_.steps.size() <= at(stage.steps)) report_.steps.push_back({stage.step_began, now_});
    SwarmStep& step = report_.steps[at(stage.steps)];
    step.start_s = std::min(step.start_s, stage.step_began);
    step.end_s = std::max(step.end_s, now_);
    ++stage.steps;
    emit(SwarmEvent::Kind::stepped, -1, number, no_peer);
  }
  if (stage.held >= problem_.job.training.global_batch) begin_averaging(number);
  for (int peer = 0; peer < problem_.topology->size(); ++peer)
    if (peers_[at(peer)].stage == number) serve_next(peer);
}

/// Loses the peer's gradients of all stages, both those that it holds and those being averaged.
void SwarmRun::lose_gradients(int peer) {
  for (int number = 0; number < costs_.stages(); ++number) {
    Stage& stage = stages_[at(number)];
    HeldGradients &held = stage.held_by[at(peer)], &averaged = stage.averaging_by[at(peer)];
    const int samples = held.samples + averaged.samples;
    if (samples == 0) continue;
    stage.held -= held.samples;
    stage.lost += samples;
    report_.lost_work_s += held.seconds + averaged.seconds;
    held = averaged = {};
    emit(SwarmEvent::Kind::lost, -1, number, peer);
  }
}

}  // namespace dtfm::sim
