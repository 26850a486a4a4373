// Checks: some calls are computed a second time, by another peer. A check is a slot of its own, so that it
// moves, waits, is computed and is broken off as other requests are; but no micro-batch waits for it.
#include <fmt/format.h>

#include "simulator/swarm/swarm_run.hpp"

namespace dtfm::sim {

/// The peer of the slot has computed what it was asked for: draws whether another is asked for the same.
/// `call`: which of the first peer's corrupt calls that is, or 0.
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

/// What is compared are sketches of the outputs, which take no time. The second peer tells the truth: who
/// could tell a check from other calls would gain nothing by lying there.
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

/// One of those who were needed has gone. It is not asked of anybody else.
void SwarmRun::abandon_check(int number) {
  ++verification_.report.unverified;
  end_check(number);
}

/// Who has lied leaves, with all gradients that it holds, and does not come back.
void SwarmRun::ban_faulty_peer(int device, long long call) {
  Peer& peer = peers_[at(device)];
  if (peer.banned) return;
  peer.banned = true;
  verification_.record_detection(device, now_, call, costs_.samples());
  note(fmt::format("{} is caught lying", name(device)));
  leave(device);
  on_devices_changed();
}

}  // namespace dtfm::sim
