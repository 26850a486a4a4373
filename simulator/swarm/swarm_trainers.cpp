// Trainers: each sends its micro-batches through all stages, request by request.
#include <algorithm>

#include "core/base/error.hpp"
#include "core/base/infinity.hpp"
#include "simulator/engine/clock.hpp"
#include "simulator/swarm/swarm_run.hpp"

namespace dtfm::sim {
namespace {

constexpr double forward_timeout_s = 30, backward_timeout_s = 75, refresh_period_s = 30;

}  // namespace

/// Trainers start with a complete view of the peers and refresh it every 30 s, with random phases.
void SwarmRun::start_trainers() {
  const int devices = problem_.topology->size();
  const int devices_each = setup_.transport == SwarmTransport::relay ? 1 : 4;
  const int trainers = setup_.trainers.value_or((devices + devices_each - 1) / devices_each);
  const int in_flight = setup_.in_flight.value_or(std::max(1, (4 * devices + trainers - 1) / trainers));
  std::vector<std::vector<int>> of_site(problem_.topology->sites.size());
  for (int device = 0; device < devices; ++device)
    of_site[at(problem_.topology->devices[at(device)].site)].push_back(device);
  std::erase_if(of_site, [](const std::vector<int>& site) { return site.empty(); });
  for (int i = 0; i < trainers; ++i) {
    const std::vector<int>& site = of_site[at(i) % of_site.size()];
    Trainer& trainer = trainers_.emplace_back();
    trainer.device = site[at(i) / of_site.size() % site.size()];
    trainer.rng = Rng::for_task(seed_, static_cast<std::uint64_t>(i));
    trainer.wirings.assign(at(costs_.stages()), Wiring(devices));
    trainer.seen_versions.assign(at(costs_.stages()), -1);
    queue_.push(round_to_tick(trainer.rng.uniform() * refresh_period_s), 0,
                {QueueEvent::Kind::refresh, i, 0});
    for (int stage = 0; stage < costs_.stages(); ++stage) refresh(trainer, stage, false);
  }
  micro_batch_slots_ = trainers * in_flight;
  slots_.resize(at(micro_batch_slots_));
  stage_visits_.resize(slots_.size() * at(costs_.stages()));
  for (int slot = 0; slot < micro_batch_slots_; ++slot) {
    slots_[at(slot)].trainer = slot % trainers;
    issue_micro_batch(slot);
  }
}

void SwarmRun::issue_micro_batch(int number) {
  Slot& slot = slots_[at(number)];
  slot.number = issued_++;
  slot.stage = 0;
  slot.backward = false;
  slot.spent_s = 0;
  for (int stage = 0; stage < costs_.stages(); ++stage) stage_visit(number, stage) = {};
  emit(SwarmEvent::Kind::issued, slot.number, no_peer, no_peer);
  request_peer(number);
}

/// Reads the announcements of a stage, if they may have changed or `at_once` is set. Returns whether it did.
bool SwarmRun::refresh(Trainer& trainer, int stage, bool at_once) {
  Wiring& wiring = trainer.wirings[at(stage)];
  const bool is_old = trainer.seen_versions[at(stage)] != announcements_.version(stage) ||
                      announcements_.has_ended(stage) || wiring.has_bans();
  if (!is_old && !at_once) return false;
  const std::vector<Announcement> valid = announcements_.valid(stage, now_);
  wiring.refresh(valid, trainer.rng);
  trainer.seen_versions[at(stage)] = announcements_.version(stage);
  return true;
}

void SwarmRun::refresh_all(int number) {
  for (int stage = 0; stage < costs_.stages(); ++stage) refresh(trainers_[at(number)], stage, false);
  queue_.push(round_to_tick(now_ + refresh_period_s), 0, {QueueEvent::Kind::refresh, number, 0});
}

void SwarmRun::request_peer(int number) {
  Slot& slot = slots_[at(number)];
  Trainer& trainer = trainers_[at(slot.trainer)];
  Wiring& wiring = trainer.wirings[at(slot.stage)];
  std::optional<int> peer = wiring.pick(task_size(slot), trainer.rng);
  if (!peer) {
    refresh(trainer, slot.stage, true);
    peer = wiring.pick(task_size(slot), trainer.rng);
  }
  slot.requested_at = now_;
  if (!peer) return block(number);
  slot.peer = *peer;
  set_deadline(number);
  const Peer& target = peers_[at(*peer)];
  const auto round_trip = [&] { return 2 * network_.latency_s(trainer.device, *peer); };
  if (!target.available) {
    fail_request(number, std::max(now_, target.left_at + scenario_.detection_s) + round_trip(), false);
  } else if (!target.serving || target.stage != slot.stage) {
    fail_request(number, now_ + round_trip(), false);
  } else {
    send_request(number);
  }
}

void SwarmRun::block(int number) {
  Slot& slot = slots_[at(number)];
  slot.phase = Phase::idle;
  slot.peer = no_peer;
  slot.deadline = infinity;
  stages_[at(slot.stage)].blocked.push_back(number);
}

/// A peer has announced itself for the stage, so that blocked micro-batches can try again.
void SwarmRun::wake_blocked(int stage) {
  std::vector<int> blocked;
  blocked.swap(stages_[at(stage)].blocked);
  for (const int slot : blocked) request_peer(slot);
}

void SwarmRun::set_deadline(int number) {
  Slot& slot = slots_[at(number)];
  slot.deadline = round_to_tick(now_ + (slot.backward ? backward_timeout_s : forward_timeout_s));
  // One timeout event serves many requests: it checks the deadline when it comes. A new event is needed only
  // if there is none, or the pending one would come too late.
  if (slot.timeout_event_at > now_ && slot.timeout_event_at <= slot.deadline) return;
  slot.timeout_event_at = slot.deadline;
  queue_.push(slot.deadline, 0, {QueueEvent::Kind::timeout, number, 0});
}

void SwarmRun::on_timeout(const QueueEvent& event) {
  Slot& slot = slots_[at(event.id)];
  if (slot.timeout_event_at != now_) return;
  slot.timeout_event_at = 0;
  if (slot.phase == Phase::idle) return;
  if (now_ < slot.deadline) {
    slot.timeout_event_at = slot.deadline;
    return queue_.push(slot.deadline, 0, {QueueEvent::Kind::timeout, event.id, 0});
  }
  ++report_.timeouts;
  end_request(event.id);
  request_peer(event.id);
}

/// The sources of the inputs of the slot's request, sent to `peer`. If `peer` is not the slot's own peer, it
/// verifies that one, which therefore must not be a source.
SwarmRun::Sources SwarmRun::sources(const Slot& slot, int number, int peer) const {
  Sources found{{}, 0};
  const auto add = [&](int from, double bytes) { found.from[at(found.count++)] = {from, bytes}; };
  const int stage = slot.stage;
  const bool is_first = stage == 0, is_last = stage == costs_.stages() - 1;
  const VisitBytes& bytes = costs_.visit_bytes(stage, slot.backward);
  if (setup_.transport == SwarmTransport::relay) {
    add(no_peer, bytes.samples + bytes.activations + bytes.gradient);
    return found;
  }
  const PeerLife& here = stage_visit(number, stage).forward;
  const bool is_here = slot.backward && is_alive(here), has_input = is_here && here.peer == peer;
  // The backward pass of the last stage starts when the trainer asks for it, even if the peer has all data.
  if (is_last || (is_first && !has_input)) add(no_peer, has_input ? 0 : bytes.samples);
  if (slot.backward && !is_last) {
    if (!is_alive(slot.gradient)) return {};
    add(slot.gradient.peer, bytes.gradient);
  }
  if (is_first || has_input) return found;
  const PeerLife& before = stage_visit(number, stage - 1).forward;
  const PeerLife& source = is_here && here.peer != slot.peer ? here : before;
  if (!is_alive(source)) return {};
  add(source.peer, bytes.activations);
  return found;
}

void SwarmRun::send_request(int number) {
  const Slot& slot = slots_[at(number)];
  const Sources from = sources(slot, number, slot.peer);
  if (from.count == none) return restart(number);
  send_inputs(number, from);
}

void SwarmRun::send_inputs(int number, const Sources& sources) {
  Slot& slot = slots_[at(number)];
  slot.phase = Phase::sending_request;
  slot.missing = sources.count;
  for (std::size_t i = 0; i < at(sources.count); ++i) {
    const auto [peer, bytes] = sources.from[i];
    const int from = peer == no_peer ? trainers_[at(slot.trainer)].device : peer;
    slot.messages[i] =
        network_.send(now_, from, slot.peer, bytes, number, peer == no_peer ? request_input : peer_input);
  }
}

void SwarmRun::on_message(int message) {
  const int number = network_.message(message).owner;
  const SwarmNetwork::Message arrived = network_.arrive(message, now_);
  if (is_check(number) && arrived.from != arrived.to) verification_.report.bytes += arrived.bytes;
  Slot& slot = slots_[at(number)];
  for (int& it : slot.messages)
    if (it == message) it = none;
  if (slot.phase == Phase::sending_reply)
    finish_visit(number);
  else if (--slot.missing == 0)
    enqueue_request(number);
}

/// The peer has computed the request. Sending its output to another peer counts as part of the next visit;
/// sending it to the trainer is part of this one.
void SwarmRun::on_computed_request(int number) {
  if (is_check(number)) return on_checked(number);
  verify(number, verification_.record_output(slots_[at(number)].peer));
  Slot& slot = slots_[at(number)];
  const int stage = slot.stage;
  const PeerLife here{slot.peer, peers_[at(slot.peer)].life};
  if (slot.backward) {
    add_gradient(number);
    slot.gradient = here;
  } else {
    emit(SwarmEvent::Kind::forward, slot.number, stage, slot.peer);
    stage_visit(number, stage).forward = here;
  }
  const bool is_last = slot.backward ? stage == 0 : stage == costs_.stages() - 1;
  if (setup_.transport == SwarmTransport::peer_to_peer && !is_last) return finish_visit(number);
  slot.phase = Phase::sending_reply;
  slot.messages[0] = network_.send(now_, slot.peer, trainers_[at(slot.trainer)].device,
                                   costs_.visit_bytes(stage, slot.backward).output, number, reply);
}

void SwarmRun::finish_visit(int number) {
  Slot& slot = slots_[at(number)];
  Wiring& wiring = trainers_[at(slot.trainer)].wirings[at(slot.stage)];
  wiring.measure(slot.peer, task_size(slot), now_ - slot.requested_at);
  end_request(number);
  if (!slot.backward && slot.stage + 1 < costs_.stages()) {
    ++slot.stage;
  } else if (!slot.backward) {
    slot.backward = true;
  } else if (slot.stage > 0) {
    --slot.stage;
  } else {
    report_.samples += costs_.samples();
    emit(SwarmEvent::Kind::finished, slot.number, no_peer, no_peer);
    return issue_micro_batch(number);
  }
  request_peer(number);
}

/// Cancels messages in transit and a queued request. A running computation continues, but its result is lost.
void SwarmRun::end_request(int number) {
  Slot& slot = slots_[at(number)];
  for (int& message : slot.messages) {
    if (message != none) network_.cancel(message, now_);
    message = none;
  }
  if (slot.phase == Phase::waiting) --peers_[at(slot.peer)].waiting;
  slot.phase = Phase::idle;
  slot.missing = 0;
  ++slot.attempt;
}

/// The request has failed; its trainer learns about it at time `date` (s).
void SwarmRun::fail_request(int number, double date, bool peer_not_at_fault) {
  if (is_check(number)) return abandon_check(number);
  end_request(number);
  Slot& slot = slots_[at(number)];
  slot.phase = Phase::failed_undetected;
  slot.peer_not_at_fault = peer_not_at_fault;
  queue_.push(round_to_tick(date), 0, {QueueEvent::Kind::failed, number, slot.attempt});
}

void SwarmRun::on_failed(int number) {
  Slot& slot = slots_[at(number)];
  if (!slot.peer_not_at_fault && trainers_[at(slot.trainer)].wirings[at(slot.stage)].ban(slot.peer, now_))
    ++report_.bans;
  end_request(number);
  request_peer(number);
}

/// Restarts a micro-batch from the first stage because its input was lost with the peers that had it.
/// Gradients that have been added are not added again.
void SwarmRun::restart(int number) {
  Slot& slot = slots_[at(number)];
  end_request(number);
  ++report_.restarts;
  report_.lost_work_s += slot.spent_s;
  slot.spent_s = 0;
  slot.stage = 0;
  slot.backward = false;
  request_peer(number);
}

}  // namespace dtfm::sim
