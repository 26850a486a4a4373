// The devices of a swarm, and what they compute.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "simulator/run/jitter.hpp"
#include "simulator/swarm/assignment.hpp"
#include "simulator/swarm/swarm_context.hpp"

namespace dtfm::sim {

/// One pass of a micro-batch, or of a check, at the stage of a peer.
struct PeerRequest {
  int slot = no_index;  // no_index: it is cancelled, and its result will be lost
  bool backward = false;
};

struct Peer {
  bool available = true;
  bool banned = false;                     // permanently, because it was detected as faulty
  bool serving = false, fetching = false;  // the stage; at most one of both
  int stage = no_index;
  int life = 0;                               // number of times it has left; what it holds is lost then
  double down_since = 0, fetching_since = 0;  // s
  double down_s = 0, fetching_s = 0;

  double factor = 1;                // of the scenario on its speed
  std::deque<PeerRequest> waiting;  // first come, first served
  bool busy = false;
  PeerRequest current;
  double started_at = 0, ends_at = 0;  // s, of the current request
  std::uint32_t generation = 0;        // of the event at its end
  double compute_s = 0;
  long long visits = 0;

  double load() const { return static_cast<double>(waiting.size()) + (busy ? 1 : 0); }
  bool serves(int its_stage) const { return serving && stage == its_stage; }
  void end_fetching(double now) {
    fetching = false;
    fetching_s += now - fetching_since;
  }
};

/// A serving peer with requests computes one after the other, unless its stage is paused.
class Peers {
 public:
  /// The context must outlive this.
  explicit Peers(SwarmContext& run) : run_(run), peers_(at(run.devices())), paused_(at(run.setup.stages)) {
    // Streams 0, 1, … belong to the trainers.
    constexpr std::uint64_t first_stream = std::uint64_t{1} << 32;
    const double cv = run.scenario.compute_jitter.cv;
    if (cv > 0)
      for (std::size_t device = 0; device < peers_.size(); ++device)
        jitter_.emplace_back(Rng::for_task(run.seed, first_stream + device), cv);
  }

  Peer& operator[](int device) { return peers_[at(device)]; }
  const Peer& operator[](int device) const { return peers_[at(device)]; }
  int size() const { return run_.devices(); }
  /// Samples per second that the device would compute at the stage.
  double rate(int device, int stage) const {
    return run_.costs.rate(run_.costs.kind(device), stage) * peers_[at(device)].factor;
  }

  /// The available devices, grouped by kind and speed. `kind_of_device`, unless null, gets their indices.
  std::vector<PeerKind> available_kinds(std::vector<int>* kind_of_device = nullptr) const {
    std::map<std::pair<int, double>, int> numbers;
    std::vector<PeerKind> kinds;
    if (kind_of_device) kind_of_device->assign(at(run_.devices()), no_index);
    for (int device = 0; device < run_.devices(); ++device) {
      if (!peers_[at(device)].available) continue;
      const auto [place, is_new] = numbers.emplace(
          std::pair(run_.costs.kind(device), peers_[at(device)].factor), static_cast<int>(kinds.size()));
      if (is_new) {
        PeerKind& made = kinds.emplace_back();
        for (int stage = 0; stage < run_.setup.stages; ++stage) made.rates.push_back(rate(device, stage));
      }
      ++kinds[at(place->second)].count;
      if (kind_of_device) (*kind_of_device)[at(device)] = place->second;
    }
    return kinds;
  }

  void enqueue(int number, const PeerRequest& request) {
    peers_[at(number)].waiting.push_back(request);
    serve_next(number);
  }
  /// Removes a waiting request. If it is being computed, that continues, but its result is lost.
  void cancel(int number, int slot) {
    Peer& peer = peers_[at(number)];
    if (peer.busy && peer.current.slot == slot)
      peer.current.slot = no_index;
    else
      std::erase_if(peer.waiting, [&](const PeerRequest& request) { return request.slot == slot; });
  }
  /// Starts the next computation, if there is one and the peer is free.
  void serve_next(int number) {
    Peer& peer = peers_[at(number)];
    if (peer.busy || !peer.serving || paused_[at(peer.stage)] || peer.waiting.empty()) return;
    peer.current = peer.waiting.front();
    peer.waiting.pop_front();
    const int kind = run_.costs.kind(number);
    double seconds = peer.current.backward ? run_.costs.backward_s(kind, peer.stage)
                                           : run_.costs.forward_s(kind, peer.stage);
    if (!jitter_.empty()) seconds *= jitter_[at(number)].next();
    peer.busy = true;
    peer.started_at = run_.now;
    push_end(number, run_.now + seconds / peer.factor);
  }
  /// The current computation has ended. Returns false if the event is obsolete. The caller takes the result
  /// of `current`, then calls `serve_next`.
  bool finish(const QueueEvent& event) {
    Peer& peer = peers_[at(event.id)];
    if (!peer.busy || peer.generation != event.generation) return false;
    peer.busy = false;
    peer.compute_s += run_.now - peer.started_at;
    ++peer.visits;
    ++run_.report.visits;
    if (peer.current.slot == no_index) run_.report.lost_work_s += run_.now - peer.started_at;
    return true;
  }
  /// Aborts the current computation, which is lost.
  void abort(int number) {
    Peer& peer = peers_[at(number)];
    if (!peer.busy) return;
    peer.busy = false;
    peer.compute_s += run_.now - peer.started_at;
    run_.report.lost_work_s += run_.now - peer.started_at;
  }
  /// The current computation continues at the new speed.
  void change_speed(int number, double factor) {
    Peer& peer = peers_[at(number)];
    if (peer.busy) push_end(number, run_.now + (peer.ends_at - run_.now) * peer.factor / factor);
    peer.factor = factor;
  }
  /// The peers of a paused stage start no computations.
  void pause(int stage) { paused_[at(stage)] = true; }
  void resume(int stage) {
    paused_[at(stage)] = false;
    for (int peer = 0; peer < run_.devices(); ++peer)
      if (peers_[at(peer)].stage == stage) serve_next(peer);
  }

 private:
  void push_end(int number, double date) {
    Peer& peer = peers_[at(number)];
    peer.ends_at = round_to_tick(date);
    run_.push(peer.ends_at, {QueueEvent::Kind::computed, number, ++peer.generation});
  }

  SwarmContext& run_;
  std::vector<Peer> peers_;            // [device]
  std::vector<bool> paused_;           // [stage]
  std::vector<JitterFactors> jitter_;  // [device]; empty without jitter
};

}  // namespace dtfm::sim
