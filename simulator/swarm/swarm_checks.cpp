// Checks: another peer computes some calls a second time. A check has a slot of its own, so that it is sent,
// queued, computed and cancelled like other requests, but no micro-batch waits for it.
#include <fmt/format.h>

#include "simulator/swarm/swarm_run.hpp"

namespace dtfm::sim {

/// The peer of the slot has computed its request. Decides at random whether another peer verifies it. `call`
/// is the number of this corrupt call of the first peer, or 0.
void SwarmRun::verify(int number, long long call) {
  if (!verification_.should_verify()) return;
  const Slot& slot = slots_[at(number)];
  Trainer& trainer = trainers_[at(slot.trainer)];
  const auto second = trainer.wirings[at(slot.stage)].pick(task_size(slot), trainer.rng, slot.peer);
  Sources from;
  if (second && peers_[at(*second)].serving && peers_[at(*second)].stage == slot.stage)
    from = sources(slot, number, *second);
  if (from.count <= 0) {
    ++verification_.report.unverified;
    return;
  }
  const int check = new_check(number, *second, call);
  send_inputs(check, from);
}

int SwarmRun::new_check(int verified_slot, int second, long long call) {
  if (unused_checks_.empty()) {
    unused_checks_.push_back(static_cast<int>(slots_.size()));
    slots_.emplace_back();
    checks_.emplace_back();
  }
  const int number = unused_checks_.back();
  unused_checks_.pop_back();
  Slot& check = slots_[at(number)];
  const Slot& slot = slots_[at(verified_slot)];
  check.trainer = slot.trainer;
  check.number = slot.number;
  check.stage = slot.stage;
  check.backward = slot.backward;
  check.peer = second;
  checks_[at(number - micro_batch_slots_)] = {slot.peer, call};
  return number;
}

/// The peers compare sketches of their outputs, which takes no time. The second peer is assumed to be honest:
/// a peer that could tell checks from other calls would gain nothing by corrupting them.
void SwarmRun::on_checked(int number) {
  const Check check = checks_[at(number - micro_batch_slots_)];
  ++verification_.report.verified;
  verification_.report.compute_s += now_ - peers_[at(slots_[at(number)].peer)].started_at;
  end_check(number);
  if (check.call > 0) ban_faulty_peer(check.first, check.call);
}

void SwarmRun::end_check(int number) {
  end_request(number);
  unused_checks_.push_back(number);
}

/// A peer that the check needs has left. The check is not repeated elsewhere.
void SwarmRun::abandon_check(int number) {
  ++verification_.report.unverified;
  end_check(number);
}

/// A faulty peer leaves permanently, and all gradients that it holds are lost.
void SwarmRun::ban_faulty_peer(int device, long long call) {
  Peer& peer = peers_[at(device)];
  if (peer.banned) return;
  peer.banned = true;
  verification_.record_detection(device, now_, call, costs_.samples());
  note(fmt::format("{} is banned as faulty", name(device)));
  leave(device);
  on_devices_changed();
}

}  // namespace dtfm::sim
