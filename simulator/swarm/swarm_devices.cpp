// Which devices are available and which stages they serve: failures, joins, moves and rebalancing.
#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/infinity.hpp"
#include "simulator/engine/clock.hpp"
#include "simulator/swarm/swarm_run.hpp"

namespace dtfm::sim {
namespace {}  // namespace

/// Devices that are available at the start serve immediately, with weights initialized from the seed. Peers
/// of one kind are assigned to the stages in turn, so that every stage has peers of every site.
void SwarmRun::assign_peers() {
  std::vector<int> kind_of;
  const std::vector<PeerKind> kinds = available_kinds(&kind_of);
  if (kinds.empty()) return;
  Assignment best = best_assignment(kinds);
  std::vector<int> turn(kinds.size());  // [kind]: the next stage
  for (int device = 0; device < problem_.topology->size(); ++device) {
    Peer& peer = peers_[at(device)];
    if (!peer.available) continue;
    const std::size_t kind = at(kind_of[at(device)]);
    int& stage = turn[kind];
    while (best.counts[at(stage)][kind] == 0) stage = (stage + 1) % costs_.stages();
    --best.counts[at(stage)][kind];
    peer.stage = stage;
    stage = (stage + 1) % costs_.stages();
    begin_serving(device);
  }
}

void SwarmRun::push_next_device_event() {
  const double date = device_timeline_.next_date();
  if (date < infinity) queue_.push(std::max(now_, date), 1, {QueueEvent::Kind::device_event});
}

void SwarmRun::apply_device_events() {
  while (const DeviceEvent* event = device_timeline_.take(now_)) {
    if (event->kind == DeviceEvent::Kind::speed) {
      change_speed(event->device, event->speed);
      note(fmt::format("{} computes at {:g} times its speed", name(event->device), event->speed));
    } else if (event->kind == DeviceEvent::Kind::leave) {
      leave(event->device);
    } else {
      join(event->device);
    }
  }
  on_devices_changed();
  push_next_device_event();
}

/// Everything that the device holds, and everything in transit to or from it, is lost.
void SwarmRun::leave(int device) {
  Peer& peer = peers_[at(device)];
  if (!peer.available) return;
  ++report_.failures;
  note(peer.stage == no_peer ? fmt::format("{} leaves", name(device))
                             : fmt::format("{} leaves stage {}", name(device), peer.stage));
  peer.left_at = peer.down_since = now_;
  const double known = now_ + scenario_.detection_s;
  for (int number = 0; at(number) < slots_.size(); ++number) {
    Slot& slot = slots_[at(number)];
    const auto comes_from_device = [&](int message) {
      return message != none && network_.message(message).purpose == peer_input &&
             network_.message(message).from == device;
    };
    const double latency = network_.latency_s(trainers_[at(slot.trainer)].device, device);
    if (slot.phase == Phase::idle || slot.phase == Phase::failed_undetected) continue;
    if (slot.peer == device) {
      forget_lost_gradient(number);
      fail_request(number, known + latency, false);
    } else if (comes_from_device(slot.messages[0]) || comes_from_device(slot.messages[1])) {
      fail_request(number, known + latency, true);
    }
  }
  stop_serving(device);
  cancel_fetch(device);
  lose_gradients(device);
  peer.available = false;
  peer.stage = no_peer;
  ++peer.life;
  for (int other = 0; other < problem_.topology->size(); ++other)
    if (peers_[at(other)].download != none && peers_[at(other)].donor == device) {
      network_.cancel(peers_[at(other)].download, now_);
      peers_[at(other)].download = none;
      start_download(other);
    }
  peer.uploads = 0;
}

/// A backward pass whose gradient is lost before the trainer has the reply is repeated and counted again.
void SwarmRun::forget_lost_gradient(int number) {
  const Slot& slot = slots_[at(number)];
  if (!slot.backward || slot.phase != Phase::sending_reply) return;
  const Stage& stage = stages_[at(slot.stage)];
  StageVisit& visit = stage_visit(number, slot.stage);
  const bool is_lost = visit.epoch == stage.epoch || (stage.averaging && visit.epoch + 1 == stage.epoch);
  if (visit.gradient_holder == slot.peer && is_lost) visit.gradient_holder = no_peer;
}

void SwarmRun::join(int device) {
  Peer& peer = peers_[at(device)];
  if (peer.available || peer.banned) return;
  ++report_.joins;
  peer.available = true;
  peer.down_s += now_ - peer.down_since;
  const int stage = most_loaded_stage(true);
  note(fmt::format("{} joins stage {}", name(device), stage));
  fetch(device, stage);
}

/// The peer keeps its gradients of the stage that it leaves, and takes part in that stage's next all-reduce.
void SwarmRun::move(int device, int stage) {
  ++report_.moves;
  note(fmt::format("{} moves from stage {} to stage {}", name(device), peers_[at(device)].stage, stage));
  for (int number = 0; at(number) < slots_.size(); ++number) {
    const Slot& slot = slots_[at(number)];
    if (slot.peer != device || slot.phase == Phase::idle || slot.phase == Phase::sending_reply ||
        slot.phase == Phase::failed_undetected)
      continue;
    fail_request(number, now_ + network_.latency_s(trainers_[at(slot.trainer)].device, device), false);
  }
  stop_serving(device);
  fetch(device, stage);
  on_devices_changed();
}

void SwarmRun::stop_serving(int device) {
  Peer& peer = peers_[at(device)];
  if (!peer.serving) return;
  stop_computing(device);
  peer.queue.clear();
  peer.served = 0;
  DTFM_ASSERT(peer.waiting == 0);
  peer.serving = false;
  announcements_.end(peer.stage, device, now_);
  Stage& stage = stages_[at(peer.stage)];
  if (--stage.serving == 0) stage.blocked_since = now_;
}

/// Before the first step of a stage its weights are initialized from the seed, so nothing is fetched.
void SwarmRun::fetch(int device, int stage) {
  Peer& peer = peers_[at(device)];
  peer.stage = stage;
  peer.fetching = true;
  peer.fetching_since = now_;
  ++stages_[at(stage)].fetching;
  if (stages_[at(stage)].steps == 0)
    end_fetch(device);
  else
    start_download(device);
}

/// Downloads from the peer of the stage with the fewest uploads; ties go to the lowest device number.
void SwarmRun::start_download(int device) {
  Peer& peer = peers_[at(device)];
  const double bytes = costs_.state_bytes(peer.stage);
  int donor = no_peer;
  for (int other = 0; other < problem_.topology->size(); ++other) {
    const Peer& it = peers_[at(other)];
    if (it.available && it.serving && it.stage == peer.stage &&
        (donor == no_peer || it.uploads < peers_[at(donor)].uploads))
      donor = other;
  }
  peer.donor = donor;
  if (donor != no_peer) {
    ++peers_[at(donor)].uploads;
    peer.download = network_.send(now_, donor, device, bytes, device, state_download);
  } else if (scenario_.checkpoint && scenario_.checkpoint->device) {
    peer.download = network_.send(now_, *scenario_.checkpoint->device, device, bytes, device, state_download);
  } else if (scenario_.checkpoint && scenario_.checkpoint->bandwidth > 0) {
    const double seconds = bytes * bits_per_byte / scenario_.checkpoint->bandwidth;
    queue_.push(round_to_tick(now_ + seconds), 0, {QueueEvent::Kind::fetched, device, ++peer.generation});
  } else {
    if (!scenario_.checkpoint)
      note(fmt::format("no peer has the weights of stage {}: it starts again from the seed", peer.stage));
    end_fetch(device);
  }
}

void SwarmRun::cancel_fetch(int device) {
  Peer& peer = peers_[at(device)];
  if (!peer.fetching) return;
  if (peer.download != none) network_.cancel(peer.download, now_);
  if (peer.download != none && peer.donor != no_peer) --peers_[at(peer.donor)].uploads;
  peer.download = none;
  ++peer.generation;
  peer.fetching = false;
  peer.fetching_s += now_ - peer.fetching_since;
  --stages_[at(peer.stage)].fetching;
}

void SwarmRun::end_fetch(int device) {
  Peer& peer = peers_[at(device)];
  if (peer.download != none && peer.donor != no_peer) --peers_[at(peer.donor)].uploads;
  peer.download = none;
  peer.fetching = false;
  peer.fetching_s += now_ - peer.fetching_since;
  --stages_[at(peer.stage)].fetching;
  begin_serving(device);
  on_devices_changed();
}

void SwarmRun::begin_serving(int device) {
  Peer& peer = peers_[at(device)];
  Stage& stage = stages_[at(peer.stage)];
  peer.serving = true;
  if (stage.serving++ == 0) stage.blocked_s += now_ - stage.blocked_since;
  announcements_.begin(peer.stage, device, now_);
  wake_blocked(peer.stage);
}

/// The number of requests that wait or are computed, plus that of blocked micro-batches.
double SwarmRun::load(int stage) const {
  double sum = static_cast<double>(stages_[at(stage)].blocked.size());
  for (const Peer& peer : peers_)
    if (peer.serving && peer.stage == stage) sum += load(peer);
  return sum;
}

/// A stage without serving or fetching peers counts as more loaded than any other.
int SwarmRun::most_loaded_stage(bool by_peer) const {
  int result = 0;
  double max_load = -1;
  for (int stage = 0; stage < costs_.stages(); ++stage) {
    const int peers = stages_[at(stage)].serving + stages_[at(stage)].fetching;
    const double here = peers == 0 ? infinity : load(stage) / (by_peer ? peers : 1);
    if (here > max_load) {
      result = stage;
      max_load = here;
    }
  }
  return result;
}

/// Samples per second of the peers that serve the stage or are fetching its state.
double SwarmRun::rate_of_stage(int stage) const {
  double sum = 0;
  for (int device = 0; device < problem_.topology->size(); ++device) {
    const Peer& peer = peers_[at(device)];
    if ((peer.serving || peer.fetching) && peer.stage == stage) sum += rate(device, stage);
  }
  return sum;
}

/// The least loaded peer that the stage can spare; no_peer if there is none. If moves must be beneficial, the
/// stage must stay faster than `slowest_rate` without the peer. The last peer is never spared.
int SwarmRun::spare_peer(int stage, double slowest_rate) const {
  if (stages_[at(stage)].serving < 2) return no_peer;
  const double all = rate_of_stage(stage);
  int spare = no_peer;
  for (int device = 0; device < problem_.topology->size(); ++device) {
    const Peer& peer = peers_[at(device)];
    if (!peer.serving || peer.stage != stage) continue;
    if (setup_.require_beneficial_moves && !(all - rate(device, stage) > slowest_rate)) continue;
    if (spare == no_peer || load(peer) < load(peers_[at(spare)])) spare = device;
  }
  return spare;
}

/// Moves the least loaded peer of the least loaded stage that can spare one to the most loaded stage.
void SwarmRun::rebalance() {
  queue_.push(round_to_tick(now_ + *setup_.rebalance_s), 1, {QueueEvent::Kind::rebalance});
  const int target = most_loaded_stage(false);
  const double its_rate = rate_of_stage(target);
  int mover = no_peer;
  double min_load = infinity;
  for (int stage = 0; stage < costs_.stages(); ++stage) {
    const int peer = stage == target ? no_peer : spare_peer(stage, its_rate);
    if (peer == no_peer || load(stage) >= min_load) continue;
    mover = peer;
    min_load = load(stage);
  }
  const bool is_empty = stages_[at(target)].serving + stages_[at(target)].fetching == 0;
  if (mover != no_peer && (is_empty || min_load < load(target))) move(mover, target);
}

/// The available devices, grouped by kind and speed.
std::vector<PeerKind> SwarmRun::available_kinds(std::vector<int>* kind_of_device) const {
  std::map<std::pair<int, double>, int> numbers;
  std::vector<PeerKind> kinds;
  if (kind_of_device) kind_of_device->assign(peers_.size(), no_peer);
  for (int device = 0; device < problem_.topology->size(); ++device) {
    const Peer& peer = peers_[at(device)];
    if (!peer.available) continue;
    const int kind = costs_.kind(device);
    const auto [place, is_new] =
        numbers.emplace(std::pair(kind, peer.factor), static_cast<int>(kinds.size()));
    if (is_new) {
      PeerKind& made = kinds.emplace_back();
      for (int stage = 0; stage < costs_.stages(); ++stage)
        made.rates.push_back(costs_.rate(kind, stage) * peer.factor);
    }
    ++kinds[at(place->second)].count;
    if (kind_of_device) (*kind_of_device)[at(device)] = place->second;
  }
  return kinds;
}

void SwarmRun::accumulate_throughput() {
  optimal_samples_ += optimal_ * (now_ - throughput_since_);
  assigned_samples_ += assigned_ * (now_ - throughput_since_);
  throughput_since_ = now_;
}

/// Updates the optimal throughput of the available peers and the throughput of the serving ones.
void SwarmRun::on_devices_changed() {
  accumulate_throughput();
  const std::vector<PeerKind> kinds = available_kinds(nullptr);
  std::vector<double> key;
  for (const PeerKind& kind : kinds) {
    key.push_back(kind.count);
    key.insert(key.end(), kind.rates.begin(), kind.rates.end());
  }
  const auto [known, is_new] = optima_.try_emplace(key, 0, true);
  if (is_new && !kinds.empty()) {
    const Assignment best = best_assignment(kinds);
    known->second = {best.bound, best.is_optimal};
  }
  optimal_ = known->second.first;
  report_.optimum_is_exact = report_.optimum_is_exact && known->second.second;
  std::vector<double> speeds(stages_.size());
  for (int device = 0; device < problem_.topology->size(); ++device) {
    const Peer& peer = peers_[at(device)];
    if (peer.serving) speeds[at(peer.stage)] += rate(device, peer.stage);
  }
  assigned_ = *std::min_element(speeds.begin(), speeds.end());
}

}  // namespace dtfm::sim
