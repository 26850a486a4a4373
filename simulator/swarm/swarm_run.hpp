// Discrete-event simulation of one swarm run. Trainers (swarm_trainers.cpp) send micro-batches through the
// stages, peers (swarm_peers.cpp) compute requests, stages make optimizer steps (swarm_steps.cpp), devices
// leave, join and move (swarm_devices.cpp), and calls are verified (swarm_checks.cpp).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "simulator/observation/device_timeline.hpp"
#include "simulator/run/jitter.hpp"
#include "simulator/swarm/announcements.hpp"
#include "simulator/swarm/assignment.hpp"
#include "simulator/swarm/butterfly.hpp"
#include "simulator/swarm/queue_event.hpp"
#include "simulator/swarm/swarm.hpp"
#include "simulator/swarm/swarm_costs.hpp"
#include "simulator/swarm/swarm_network.hpp"
#include "simulator/swarm/verification.hpp"
#include "simulator/swarm/wiring.hpp"

namespace dtfm::sim {

class SwarmRun {
 public:
  /// The setup must have been validated (swarm.cpp). The arguments must outlive this.
  SwarmRun(const Problem& problem, const SwarmSetup& setup, const Scenario& scenario,
           const SwarmOptions& options);

  /// May be called only once.
  SwarmReport run();

 private:
  static constexpr int no_peer = -1, none = -1;
  /// Purposes of messages: input from a trainer to a peer, input from a peer to a peer, reply from a peer to
  /// a trainer, and the state of a stage. The owner of the last is a peer; slots own the others.
  enum Purpose { request_input, peer_input, reply, state_download };

  /// A device between joining and leaving. What it holds is lost when that life ends.
  struct PeerLife {
    int peer = no_peer, life = 0;
  };

  // ---- Trainers

  enum class Phase : std::uint8_t {
    idle,              // between two requests, or blocked because there is no peer to ask
    sending_request,   // inputs are in transit
    waiting,           // queued at the peer
    computing,         // the peer computes the request
    sending_reply,     // the reply is in transit
    failed_undetected  // the request has failed, which the trainer does not know yet
  };
  /// A micro-batch in flight. The slot is reused for the trainer's next micro-batch.
  struct Slot {
    int trainer = 0;
    long long number = 0;  // of the micro-batch
    int stage = 0;
    bool backward = false;
    Phase phase = Phase::idle;
    bool peer_not_at_fault = false;  // in failed_undetected: the failure is not that of the requested peer
    int peer = no_peer;
    std::uint32_t attempt = 0;                   // generation of the request
    std::array<int, 2> messages = {none, none};  // of the request or the reply
    int missing = 0;                             // messages of the request that have not arrived yet
    double requested_at = 0, deadline = 0;       // s
    double timeout_event_at = 0;                 // s of its next timeout event; 0: none
    double spent_s = 0;                          // compute time that a restart would lose
    PeerLife gradient;  // peer_to_peer: the peer that has the gradient of the stage's output
  };
  /// State of a micro-batch at one stage.
  struct StageVisit {
    PeerLife forward;               // the peer that computed the forward pass
    int gradient_holder = no_peer;  // the peer to whose gradients its gradient was added
    int epoch = 0;                  // of the stage at that time
  };
  struct Trainer {
    int device = 0;
    Rng rng;
    std::vector<Wiring> wirings;     // [stage]
    std::vector<int> seen_versions;  // [stage]: version of the announcements at the last refresh
  };

  /// The sources of the inputs of a request.
  struct Sources {
    std::array<std::pair<int, double>, 2> from;  // device (`no_peer`: the trainer), bytes
    int count = none;                            // none: the last peer with some input has left
  };

  void issue_micro_batch(int slot);
  void request_peer(int slot);
  bool refresh(Trainer& trainer, int stage, bool at_once);
  void refresh_all(int trainer);
  void block(int slot);
  void wake_blocked(int stage);
  void send_request(int slot);
  Sources sources(const Slot& slot, int number, int peer) const;
  void send_inputs(int slot, const Sources& from);
  void on_message(int message);
  void on_computed_request(int slot);
  void finish_visit(int slot);
  void end_request(int slot);
  void fail_request(int slot, double date, bool peer_not_at_fault);
  void on_failed(int slot);
  void on_timeout(const QueueEvent& event);
  void set_deadline(int slot);
  void restart(int slot);
  double task_size(const Slot& slot) const {
    return slot.backward ? 2.5 * costs_.samples() : costs_.samples();
  }
  bool is_alive(const PeerLife& holder) const {
    return holder.peer != no_peer && peers_[at(holder.peer)].available &&
           peers_[at(holder.peer)].life == holder.life;
  }
  StageVisit& stage_visit(int slot, int stage) {
    return stage_visits_[at(slot) * at(costs_.stages()) + at(stage)];
  }
  const StageVisit& stage_visit(int slot, int stage) const {
    return stage_visits_[at(slot) * at(costs_.stages()) + at(stage)];
  }

  // ---- Checks: slots from `micro_batch_slots_` on (swarm_checks.cpp)

  struct Check {
    int first = no_peer;  // the peer whose call is verified
    long long call = 0;   // number of this corrupt call of the peer, or 0
  };
  void verify(int slot, long long call);
  int new_check(int verified_slot, int second, long long call);
  void on_checked(int check);
  void end_check(int check);
  void abandon_check(int check);
  void ban_faulty_peer(int device, long long call);
  bool is_check(int slot) const { return slot >= micro_batch_slots_; }

  // ---- Peers

  struct Request {
    int slot;
    std::uint32_t attempt;
  };
  struct Peer {
    bool available = true, serving = false, fetching = false, busy = false;
    bool banned = false;  // permanently, because it was detected as faulty
    int stage = no_peer, life = 0;
    double factor = 1;  // of the scenario on its speed
    double left_at = 0;
    std::vector<Request> queue;  // FIFO from `served` on; may contain cancelled requests
    std::size_t served = 0;
    int waiting = 0;  // number of requests in the queue that are not cancelled
    Request current = {none, 0};
    double started_at = 0, ends_at = 0;  // s, of the current request
    std::uint32_t generation = 0;
    int download = none, donor = no_peer, uploads = 0;
    double fetching_since = 0, down_since = 0;
    double compute_s = 0, fetching_s = 0, down_s = 0;
    long long visits = 0;
  };

  void enqueue_request(int slot);
  void serve_next(int peer);
  void on_computed(const QueueEvent& event);
  void stop_computing(int peer);
  void change_speed(int peer, double factor);
  bool is_current(const Request& request) const {
    return slots_[at(request.slot)].attempt == request.attempt;
  }

  // ---- Stages

  struct HeldGradients {
    int samples = 0;
    double seconds = 0;  // compute time
  };
  struct Stage {
    int serving = 0, fetching = 0, steps = 0, epoch = 0;
    long long held = 0, accepted = 0, lost = 0;
    bool averaging = false;
    std::vector<HeldGradients> held_by, averaging_by;  // [device]
    double step_began = 0, blocked_since = 0, blocked_s = 0;
    std::vector<int> blocked;  // slots, in order of arrival
    // The last all-reduce.
    std::vector<int> members;
    double all_reduce_s = 0;
    std::vector<double> site_shards, site_members;  // [site]: sums over the members at the site
  };

  void add_gradient(int slot);
  void begin_averaging(int stage);
  void plan_all_reduce(int stage, const std::vector<int>& members);
  template <class Use>
  void for_each_site_pair(int stage, const Use& use) const;
  void on_averaged(int stage);
  void lose_gradients(int peer);
  bool is_paused(const Stage& stage) const { return stage.averaging && !setup_.delayed_update; }

  // ---- Devices

  void assign_peers();
  void start_trainers();
  void apply_device_events();
  void push_next_device_event();
  void leave(int device);
  void forget_lost_gradient(int slot);
  void join(int device);
  void move(int peer, int stage);
  void stop_serving(int peer);
  void fetch(int peer, int stage);
  void start_download(int peer);
  void end_fetch(int peer);
  void cancel_fetch(int peer);
  void begin_serving(int peer);
  void rebalance();
  double load(const Peer& peer) const { return peer.waiting + (peer.busy ? 1 : 0); }
  double load(int stage) const;
  int most_loaded_stage(bool by_peer) const;
  double rate(int peer, int stage) const {
    return costs_.rate(costs_.kind(peer), stage) * peers_[static_cast<std::size_t>(peer)].factor;
  }
  double rate_of_stage(int stage) const;
  int spare_peer(int stage, double slowest_rate) const;
  void on_devices_changed();
  void accumulate_throughput();
  std::vector<PeerKind> available_kinds(std::vector<int>* kind_of_device) const;

  void handle(const QueueEvent& event);
  void emit(SwarmEvent::Kind kind, long long micro_batch, int stage, int peer) const {
    if (options_.observe) options_.observe({kind, now_, micro_batch, stage, peer});
  }
  void note(std::string text) { report_.events.push_back({now_, std::move(text)}); }
  const std::string& name(int device) const { return problem_.topology->devices[at(device)].id; }
  bool is_over() const;
  SwarmReport finish();
  void report_devices();
  void report_stages();

  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  const Problem& problem_;
  const SwarmSetup& setup_;
  const Scenario& scenario_;
  const SwarmOptions& options_;
  std::uint64_t seed_;
  double end_;
  SwarmCosts costs_;
  SwarmQueue queue_;
  SwarmNetwork network_;
  Announcements announcements_;
  DeviceTimeline device_timeline_;
  std::vector<JitterFactors> jitter_;  // [device]; empty without jitter
  Verification verification_;

  double now_ = 0;
  SwarmReport report_;
  std::vector<Trainer> trainers_;
  std::vector<Slot> slots_;
  int micro_batch_slots_ = 0;             // number of slots for micro-batches; later slots are checks
  std::vector<StageVisit> stage_visits_;  // [slot of a micro-batch][stage]
  std::vector<Check> checks_;             // [slot − micro_batch_slots_]
  std::vector<int> unused_checks_;
  std::vector<Peer> peers_;  // [device]
  std::vector<Stage> stages_;
  long long issued_ = 0;

  double optimal_ = 0, assigned_ = 0;                  // samples per second since `throughput_since_`
  double throughput_since_ = 0;                        // s
  double optimal_samples_ = 0, assigned_samples_ = 0;  // samples until `throughput_since_`
  /// Cache of optimal rates and whether they are exact, by counts and rates of the kinds of peers.
  std::map<std::vector<double>, std::pair<double, bool>> optima_;
};

}  // namespace dtfm::sim
