// The micro-batches in flight of a swarm: their trainers send them through the stages, request by request.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "simulator/swarm/optimizer_steps.hpp"
#include "simulator/swarm/peers.hpp"
#include "simulator/swarm/swarm_network.hpp"
#include "simulator/swarm/trainers.hpp"
#include "simulator/swarm/verification.hpp"

namespace dtfm::sim {

struct CorruptCall {
  int peer = no_index;
  long long number = 0;  // among the peer's corrupt calls, from 1; 0: it is not corrupt
};

/// A micro-batch in flight has a slot, which is reused for the trainer's next one. A check, in which another
/// peer computes a call a second time, has a slot of its own, so that it is sent, queued, computed and
/// cancelled like other requests, but no micro-batch waits for it.
class Requests {
 public:
  static constexpr double forward_timeout_s = 30, backward_timeout_s = 75;

  /// The arguments must outlive this.
  Requests(SwarmContext& run, SwarmNetwork& network, Peers& peers, OptimizerSteps& steps, Trainers& trainers,
           Verification& verification)
      : run_(run),
        network_(network),
        peers_(peers),
        steps_(steps),
        trainers_(trainers),
        verification_(verification),
        blocked_(at(run.setup.stages)) {}

  /// All trainers issue their first micro-batches.
  void start() {
    const int trainers = trainers_.count();
    const int in_flight =
        run_.setup.in_flight.value_or(std::max(1, (4 * run_.devices() + trainers - 1) / trainers));
    slots_.resize(at(trainers * in_flight));
    for (int slot = 0; slot < trainers * in_flight; ++slot) {
      slots_[at(slot)].trainer = slot % trainers;
      issue(slot);
    }
  }
  /// The message of this number, an input or a reply, has arrived.
  void on_message(int number, const SwarmNetwork::Message& message) {
    Slot& slot = slots_[at(message.owner)];
    if (slot.is_check() && message.from != message.to) verification_.report.bytes += message.bytes;
    std::replace(slot.messages.begin(), slot.messages.end(), number, no_index);
    if (slot.phase == Phase::sending_reply) return finish_visit(message.owner);
    if (slot.messages != std::array{no_index, no_index}) return;
    slot.phase = Phase::at_peer;
    peers_.enqueue(slot.peer, {message.owner, slot.backward});
  }
  /// The slot's peer has computed its request. Returns the corrupt call that a check has found.
  CorruptCall on_computed(int number) {
    if (slots_[at(number)].is_check()) return on_checked(number);
    verify(number, verification_.record_output(slots_[at(number)].peer));
    Slot& slot = slots_[at(number)];
    slot.phase = Phase::idle;
    slot.spent_s += run_.now - peers_[slot.peer].started_at;
    const PeerLife here{slot.peer, peers_[slot.peer].life};
    if (slot.backward) {
      add_gradient(slot);
      slot.gradient = here;
    } else {
      run_.emit(SwarmEvent::Kind::forward, slot.number, slot.stage, slot.peer);
      slot.visits[at(slot.stage)].forward = here;
    }
    const bool is_last = slot.stage == (slot.backward ? 0 : run_.setup.stages - 1);
    if (run_.setup.transport == SwarmTransport::relay || is_last)
      reply(number);
    else
      finish_visit(number);
    return {};
  }
  void on_failed(const QueueEvent& event) {
    const Slot& slot = slots_[at(event.id)];
    if (slot.attempt != event.generation) return;
    if (slot.peer != no_index) trainers_.ban(slot.trainer, slot.stage, slot.peer);
    end(event.id);
    request_peer(event.id);
  }
  void on_timeout(int number) {
    Slot& slot = slots_[at(number)];
    if (slot.timeout_event_at != run_.now) return;
    slot.timeout_event_at = 0;
    if (slot.phase == Phase::idle) return;
    if (run_.now < slot.deadline) {
      slot.timeout_event_at = slot.deadline;
      return run_.push(slot.deadline, {QueueEvent::Kind::timeout, number});
    }
    ++run_.report.timeouts;
    end(number);
    request_peer(number);
  }
  /// A device fails: requests to it, and those that wait for its output, fail when that is detected.
  void on_peer_left(int device) {
    const double known = run_.now + run_.scenario.detection_s;
    for (int number = 0; at(number) < slots_.size(); ++number) {
      Slot& slot = slots_[at(number)];
      if (slot.phase == Phase::idle || slot.phase == Phase::failed) continue;
      const auto comes_from_device = [&](int message) {
        return message != no_index &&
               network_.message(message).purpose == SwarmNetwork::Purpose::peer_input &&
               network_.message(message).from == device;
      };
      const bool is_peer_at_fault = slot.peer == device;
      if (is_peer_at_fault) forget_lost_gradient(slot);
      if (is_peer_at_fault || std::any_of(slot.messages.begin(), slot.messages.end(), comes_from_device))
        fail(number, known + latency_s(slot, device), is_peer_at_fault);
    }
  }
  /// Requests that the peer of a stage has not computed before it moves to another one fail.
  void on_peer_moves(int device) {
    for (int number = 0; at(number) < slots_.size(); ++number) {
      const Slot& slot = slots_[at(number)];
      if (slot.peer == device && (slot.phase == Phase::sending_request || slot.phase == Phase::at_peer))
        fail(number, run_.now + latency_s(slot, device), true);
    }
  }
  /// A peer has announced itself for the stage, so that blocked micro-batches can try again.
  void wake_blocked(int stage) {
    std::vector<int> blocked;
    blocked.swap(blocked_[at(stage)]);
    for (const int slot : blocked) request_peer(slot);
  }
  /// For each stage, the number of micro-batches whose trainers know no peer to ask.
  std::vector<int> blocked() const {
    std::vector<int> counts;
    for (const std::vector<int>& slots : blocked_) counts.push_back(static_cast<int>(slots.size()));
    return counts;
  }

 private:
  enum class Phase : std::uint8_t {
    idle,             // between two requests, or blocked because there is no peer to ask
    sending_request,  // inputs are in transit
    at_peer,          // queued or computed
    sending_reply,    // the reply is in transit
    failed            // which the trainer does not know yet
  };
  /// A device between joining and leaving. What it holds is lost when that life ends.
  struct PeerLife {
    int peer = no_index, life = 0;
  };
  /// State of a micro-batch at one stage.
  struct StageVisit {
    PeerLife forward;                // the peer that computed the forward pass
    int gradient_holder = no_index;  // the peer to whose gradients its gradient was added
    int epoch = 0;                   // of that gradient
  };
  struct Slot {
    int trainer = 0;
    long long number = 0;  // of the micro-batch
    int stage = 0;
    bool backward = false;
    Phase phase = Phase::idle;
    int peer = no_index;                                 // failed: no_index if it is not at fault
    std::uint32_t attempt = 0;                           // generation of the request
    std::array<int, 2> messages = {no_index, no_index};  // in transit, of the request or the reply
    double requested_at = 0, deadline = 0;               // s
    double timeout_event_at = 0;                         // s of its next timeout event; 0: none
    double spent_s = 0;                                  // compute time that a restart would lose
    std::vector<StageVisit> visits;                      // [stage]; empty for a check
    PeerLife gradient;  // peer_to_peer: the peer that has the gradient of the stage's output

    CorruptCall verified_call;  // of a check

    bool is_check() const { return visits.empty(); }
  };
  /// The sources of the inputs of a request.
  struct Sources {
    std::array<std::pair<int, double>, 2> from;  // device (`no_index`: the trainer), bytes
    std::size_t count = 0;                       // 0: the last peer with some input has left
  };

  void issue(int number) {
    Slot& slot = slots_[at(number)];
    slot.number = issued_++;
    slot.stage = 0;
    slot.backward = false;
    slot.spent_s = 0;
    slot.visits.assign(at(run_.setup.stages), {});
    run_.emit(SwarmEvent::Kind::issued, slot.number, no_index, no_index);
    request_peer(number);
  }
  void request_peer(int number) {
    Slot& slot = slots_[at(number)];
    slot.requested_at = run_.now;
    slot.peer = trainers_.pick(slot.trainer, slot.stage, task_size(slot)).value_or(no_index);
    if (slot.peer == no_index) return blocked_[at(slot.stage)].push_back(number);
    set_deadline(number);
    const Peer& target = peers_[slot.peer];
    if (!target.serves(slot.stage)) {
      const double known =
          target.available ? run_.now : std::max(run_.now, target.down_since + run_.scenario.detection_s);
      return fail(number, known + 2 * latency_s(slot, slot.peer), true);
    }
    const Sources from = sources(slot, slot.peer);
    return from.count == 0 ? restart(number) : send_inputs(number, from);
  }
  void set_deadline(int number) {
    Slot& slot = slots_[at(number)];
    slot.deadline = round_to_tick(run_.now + (slot.backward ? backward_timeout_s : forward_timeout_s));
    // One timeout event serves many requests: it checks the deadline when it comes. A new event is needed
    // only if there is none, or the pending one would come too late.
    if (slot.timeout_event_at > run_.now && slot.timeout_event_at <= slot.deadline) return;
    slot.timeout_event_at = slot.deadline;
    run_.push(slot.deadline, {QueueEvent::Kind::timeout, number});
  }
  /// The sources of the inputs of the slot's request, sent to `peer`. If `peer` is not the slot's own peer,
  /// it verifies that one, which therefore must not be a source.
  Sources sources(const Slot& slot, int peer) const {
    Sources found;
    const auto add = [&](int from, double bytes) { found.from[found.count++] = {from, bytes}; };
    const bool is_first = slot.stage == 0, is_last = slot.stage == run_.setup.stages - 1;
    const VisitBytes& bytes = run_.costs.visit_bytes(slot.stage, slot.backward);
    if (run_.setup.transport == SwarmTransport::relay) {
      add(no_index, bytes.samples + bytes.activations + bytes.gradient);
      return found;
    }
    const PeerLife& here = slot.visits[at(slot.stage)].forward;
    const bool is_here = slot.backward && is_alive(here), has_input = is_here && here.peer == peer;
    // The backward pass of the last stage starts when the trainer asks for it, even if the peer has all data.
    if (is_last || (is_first && !has_input)) add(no_index, has_input ? 0 : bytes.samples);
    if (slot.backward && !is_last) {
      if (!is_alive(slot.gradient)) return {};
      add(slot.gradient.peer, bytes.gradient);
    }
    if (is_first || has_input) return found;
    const PeerLife& before = slot.visits[at(slot.stage - 1)].forward;
    const PeerLife& source = is_here && here.peer != slot.peer ? here : before;
    if (!is_alive(source)) return {};
    add(source.peer, bytes.activations);
    return found;
  }
  void send_inputs(int number, const Sources& sources) {
    Slot& slot = slots_[at(number)];
    slot.phase = Phase::sending_request;
    for (std::size_t i = 0; i < sources.count; ++i) {
      const auto [peer, bytes] = sources.from[i];
      const bool is_trainer = peer == no_index;
      slot.messages[i] = network_.send(
          is_trainer ? trainers_.device(slot.trainer) : peer, slot.peer, bytes, number,
          is_trainer ? SwarmNetwork::Purpose::request_input : SwarmNetwork::Purpose::peer_input);
    }
  }
  /// The gradient of a repeated pass is not added again.
  void add_gradient(Slot& slot) {
    StageVisit& visit = slot.visits[at(slot.stage)];
    const double seconds = run_.now - peers_[slot.peer].started_at;
    if (visit.gradient_holder != no_index) {
      run_.report.lost_work_s += seconds;
      return;
    }
    visit.gradient_holder = slot.peer;
    slot.spent_s -= seconds;  // a restart does not lose it
    visit.epoch = steps_.add(slot.number, slot.peer, seconds);
  }
  /// Sending the output to the trainer is part of this visit, to another peer part of the next one.
  void reply(int number) {
    Slot& slot = slots_[at(number)];
    slot.phase = Phase::sending_reply;
    slot.messages[0] = network_.send(slot.peer, trainers_.device(slot.trainer),
                                     run_.costs.visit_bytes(slot.stage, slot.backward).output, number,
                                     SwarmNetwork::Purpose::reply);
  }
  void finish_visit(int number) {
    Slot& slot = slots_[at(number)];
    trainers_.measure(slot.trainer, slot.stage, slot.peer, task_size(slot), run_.now - slot.requested_at);
    end(number);
    if (!slot.backward && slot.stage + 1 < run_.setup.stages) {
      ++slot.stage;
    } else if (!slot.backward) {
      slot.backward = true;
    } else if (slot.stage > 0) {
      --slot.stage;
    } else {
      run_.report.samples += run_.costs.samples();
      run_.emit(SwarmEvent::Kind::finished, slot.number, no_index, no_index);
      return issue(number);
    }
    request_peer(number);
  }
  /// Cancels messages in transit and a queued request. A running computation continues, but its result is
  /// lost.
  void end(int number) {
    Slot& slot = slots_[at(number)];
    for (int& message : slot.messages) {
      if (message != no_index) network_.cancel(message);
      message = no_index;
    }
    if (slot.phase == Phase::at_peer) peers_.cancel(slot.peer, number);
    slot.phase = Phase::idle;
    ++slot.attempt;
  }
  /// The request has failed; its trainer learns about it at time `date` (s). A check is not repeated.
  void fail(int number, double date, bool is_peer_at_fault) {
    Slot& slot = slots_[at(number)];
    if (slot.is_check()) {
      ++verification_.report.unverified;
      return end_check(number);
    }
    end(number);
    slot.phase = Phase::failed;
    if (!is_peer_at_fault) slot.peer = no_index;
    run_.push(date, {QueueEvent::Kind::failed, number, slot.attempt});
  }
  /// A backward pass whose gradient is lost before the trainer has the reply is repeated and counted again.
  void forget_lost_gradient(Slot& slot) {
    if (!slot.backward || slot.phase != Phase::sending_reply) return;
    StageVisit& visit = slot.visits[at(slot.stage)];
    if (visit.gradient_holder == slot.peer && steps_.is_pending(slot.stage, visit.epoch))
      visit.gradient_holder = no_index;
  }
  /// Restarts a micro-batch from the first stage because its input was lost with the peers that had it.
  /// Gradients that have been added are not added again.
  void restart(int number) {
    Slot& slot = slots_[at(number)];
    end(number);
    ++run_.report.restarts;
    run_.report.lost_work_s += slot.spent_s;
    slot.spent_s = 0;
    slot.stage = 0;
    slot.backward = false;
    request_peer(number);
  }
  /// Decides at random whether another peer verifies the call that the peer of the slot has computed.
  void verify(int number, long long corrupt_call) {
    if (!verification_.should_verify()) return;
    const Slot& slot = slots_[at(number)];
    const int second =
        trainers_.pick_verifier(slot.trainer, slot.stage, task_size(slot), slot.peer).value_or(no_index);
    Sources from;
    if (second != no_index && peers_[second].serves(slot.stage)) from = sources(slot, second);
    if (from.count == 0) {
      ++verification_.report.unverified;
      return;
    }
    const int check = new_check();
    const Slot& verified = slots_[at(number)];
    Slot& it = slots_[at(check)];
    it.trainer = verified.trainer;
    it.stage = verified.stage;
    it.backward = verified.backward;
    it.peer = second;
    it.verified_call = {verified.peer, corrupt_call};
    send_inputs(check, from);
  }
  int new_check() {
    if (unused_checks_.empty()) {
      slots_.emplace_back();
      return static_cast<int>(slots_.size()) - 1;
    }
    const int number = unused_checks_.back();
    unused_checks_.pop_back();
    return number;
  }
  /// The peers compare sketches of their outputs, which takes no time. The second peer is assumed to be
  /// honest: a peer that could tell checks from other calls would gain nothing by corrupting them.
  CorruptCall on_checked(int number) {
    const Slot& check = slots_[at(number)];
    ++verification_.report.verified;
    verification_.report.compute_s += run_.now - peers_[check.peer].started_at;
    end_check(number);
    return check.verified_call;
  }
  void end_check(int number) {
    end(number);
    unused_checks_.push_back(number);
  }

  double task_size(const Slot& slot) const { return (slot.backward ? 2.5 : 1) * run_.costs.samples(); }
  double latency_s(const Slot& slot, int peer) const {
    return network_.latency_s(trainers_.device(slot.trainer), peer);
  }
  bool is_alive(const PeerLife& holder) const {
    return holder.peer != no_index && peers_[holder.peer].available &&
           peers_[holder.peer].life == holder.life;
  }

  SwarmContext& run_;
  SwarmNetwork& network_;
  Peers& peers_;
  OptimizerSteps& steps_;
  Trainers& trainers_;
  Verification& verification_;
  std::vector<Slot> slots_;
  std::vector<int> unused_checks_;
  std::vector<std::vector<int>> blocked_;  // [stage]: slots, in order of arrival
  long long issued_ = 0;
};

}  // namespace dtfm::sim
