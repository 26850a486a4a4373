// Peers: each computes one request at a time, first come, first served.
#include "core/base/error.hpp"
#include "simulator/engine/clock.hpp"
#include "simulator/swarm/swarm_run.hpp"

namespace dtfm::sim {

void SwarmRun::enqueue_request(int number) {
  Slot& slot = slots_[at(number)];
  Peer& peer = peers_[at(slot.peer)];
  slot.phase = Phase::waiting;
  peer.queue.push_back({number, slot.attempt});
  ++peer.waiting;
  if (!peer.busy) serve_next(slot.peer);
}

void SwarmRun::serve_next(int number) {
  Peer& peer = peers_[at(number)];
  if (peer.busy || !peer.serving || is_paused(stages_[at(peer.stage)])) return;
  while (peer.served < peer.queue.size() && !is_current(peer.queue[peer.served])) ++peer.served;
  if (peer.served == peer.queue.size()) {
    peer.queue.clear();
    peer.served = 0;
    return;
  }
  peer.current = peer.queue[peer.served++];
  // Erasing served requests once they are the majority keeps the queue short at amortized constant cost.
  if (2 * peer.served > peer.queue.size()) {
    peer.queue.erase(peer.queue.begin(), peer.queue.begin() + static_cast<std::ptrdiff_t>(peer.served));
    peer.served = 0;
  }
  Slot& slot = slots_[at(peer.current.slot)];
  slot.phase = Phase::computing;
  --peer.waiting;
  const int kind = costs_.kind(number);
  double seconds = slot.backward ? costs_.backward_s(kind, slot.stage) : costs_.forward_s(kind, slot.stage);
  if (!jitter_.empty()) seconds *= jitter_[at(number)].next();
  peer.busy = true;
  peer.started_at = now_;
  peer.ends_at = round_to_tick(now_ + seconds / peer.factor);
  queue_.push(peer.ends_at, 0, {QueueEvent::Kind::computed, number, ++peer.generation});
}

void SwarmRun::on_computed(const QueueEvent& event) {
  Peer& peer = peers_[at(event.id)];
  if (!peer.busy || peer.generation != event.generation) return;
  peer.busy = false;
  const double seconds = now_ - peer.started_at;
  peer.compute_s += seconds;
  ++peer.visits;
  ++report_.visits;
  if (is_current(peer.current)) {
    slots_[at(peer.current.slot)].spent_s += seconds;
    on_computed_request(peer.current.slot);
  } else {
    report_.lost_work_s += seconds;
  }
  serve_next(event.id);
}

/// Aborts the current computation, which is lost.
void SwarmRun::stop_computing(int number) {
  Peer& peer = peers_[at(number)];
  if (!peer.busy) return;
  peer.busy = false;
  ++peer.generation;
  peer.compute_s += now_ - peer.started_at;
  report_.lost_work_s += now_ - peer.started_at;
}

/// The current computation continues at the new speed.
void SwarmRun::change_speed(int number, double factor) {
  Peer& peer = peers_[at(number)];
  if (peer.busy) {
    peer.ends_at = round_to_tick(now_ + (peer.ends_at - now_) * peer.factor / factor);
    queue_.push(peer.ends_at, 0, {QueueEvent::Kind::computed, number, ++peer.generation});
  }
  peer.factor = factor;
}

}  // namespace dtfm::sim
