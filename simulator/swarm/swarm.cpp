#include "simulator/swarm/swarm.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/infinity.hpp"
#include "simulator/observation/device_timeline.hpp"
#include "simulator/swarm/optimizer_steps.hpp"
#include "simulator/swarm/rebalancing.hpp"
#include "simulator/swarm/requests.hpp"
#include "simulator/swarm/state_downloads.hpp"
#include "simulator/swarm/throughput.hpp"

namespace dtfm::sim {
namespace {

/// Throws Error for invalid values and for features that are not modelled.
void check(const Problem& problem, const SwarmSetup& setup, const Scenario& scenario,
           const SwarmOptions& options) {
  const auto require = [](bool condition, const std::string& otherwise) {
    if (!condition) throw Error("", otherwise);
  };
  const Job& job = problem.job;
  const int layers = layer_count(job.model);
  require(!problem.topology->devices.empty(), "a swarm requires at least one device");
  require(setup.stages >= 1 && setup.stages <= layers,
          fmt::format("the number of stages must be from 1 to {}; found {}", layers, setup.stages));
  require(setup.trainers.value_or(1) >= 1, "a swarm requires at least one trainer");
  require(setup.in_flight.value_or(1) >= 1, "a trainer requires at least one micro-batch in flight");
  require(setup.rebalance_s.value_or(1) > 0, "the rebalancing period must be longer than 0 s");
  require(setup.verify >= 0 && setup.verify <= 1, "the share of verified calls must be from 0 to 1");
  require(setup.faulty_share >= 0 && setup.faulty_share <= 1,
          "the share of faulty peers must be from 0 to 1");
  require(job.training.global_batch >= 1 && job.execution.micro_batch >= 1,
          "a swarm requires a global batch and a micro-batch of at least one sample");
  require(scenario.horizon_s.value_or(options.seconds) > 0,
          "the simulated time of a swarm must be longer than 0 s");
  require(job.parallelism.tensor == 1,
          "swarms do not support tensor parallelism: their peers are single devices");
  require(scenario.link_traces.empty(), "swarms do not support traces of links");
}

SwarmDevice device_report(int device, const Peer& peer, double now) {
  SwarmDevice it{device, peer.stage};
  it.compute_s = peer.compute_s + (peer.busy ? now - peer.started_at : 0);
  it.fetching_s = peer.fetching_s + (peer.fetching ? now - peer.fetching_since : 0);
  it.down_s = peer.down_s + (peer.available ? 0 : now - peer.down_since);
  it.idle_s = std::max(0.0, now - it.compute_s - it.fetching_s - it.down_s);
  it.visits = peer.visits;
  return it;
}

/// Handles the events of one run, and decides which devices serve which stages.
class SwarmRun {
 public:
  /// The setup must have been validated. The arguments must outlive this.
  SwarmRun(const Problem& problem, const SwarmSetup& setup, const Scenario& scenario,
           const SwarmOptions& options)
      : run_{problem, setup, scenario, options},
        end_(round_to_tick(scenario.horizon_s.value_or(options.seconds))),
        network_(run_),
        device_timeline_(scenario, run_.devices()),
        announcements_(setup.stages),
        verification_(setup.verify, setup.faulty_share, run_.devices(), run_.seed),
        peers_(run_),
        downloads_(run_, network_, peers_),
        steps_(run_, network_, peers_),
        trainers_(run_, announcements_),
        requests_(run_, network_, peers_, steps_, trainers_, verification_),
        throughput_(setup.stages) {}

  /// May be called only once.
  SwarmReport run() {
    double& now = run_.now;
    SwarmQueue& queue = run_.queue;
    start();
    while (!is_over()) {
      network_.update_rates();
      const double moved = std::max(now, round_to_tick(network_.next_end()));
      const double next = queue.empty() ? moved : std::min(moved, queue.next_date());
      if (!(next <= end_)) break;
      now = next;
      ++run_.report.events_handled;
      if (moved <= next)
        network_.end_next();
      else
        handle(queue.pop());
    }
    if (run_.report.stopped.empty() && !is_over()) now = end_;
    return finish();
  }

 private:
  void start() {
    while (const DeviceEvent* event = device_timeline_.take(0)) {
      Peer& peer = peers_[event->device];
      if (event->kind == DeviceEvent::Kind::speed)
        peer.factor = event->speed;
      else
        peer.available = event->kind == DeviceEvent::Kind::join;
    }
    assign_peers();
    throughput_.update(run_, peers_);
    trainers_.start();
    requests_.start();
    push_next_device_event();
    if (run_.setup.rebalance_s) run_.push(*run_.setup.rebalance_s, {QueueEvent::Kind::rebalance}, 1);
  }
  /// Devices that are available at the start serve immediately, with weights initialized from the seed.
  /// Peers of one kind are assigned to the stages in turn, so that every stage has peers of every site.
  void assign_peers() {
    std::vector<int> kind_of;
    const std::vector<PeerKind> kinds = peers_.available_kinds(&kind_of);
    if (kinds.empty()) return;
    Assignment best = best_assignment(kinds);
    std::vector<int> turn(kinds.size());  // [kind]: the next stage
    for (int device = 0; device < run_.devices(); ++device) {
      if (!peers_[device].available) continue;
      const std::size_t kind = at(kind_of[at(device)]);
      int& stage = turn[kind];
      while (best.counts[at(stage)][kind] == 0) stage = (stage + 1) % run_.setup.stages;
      --best.counts[at(stage)][kind];
      peers_[device].stage = stage;
      stage = (stage + 1) % run_.setup.stages;
      begin_serving(device);
    }
  }
  void handle(const QueueEvent& event) {
    constexpr long long events_per_stop_check = 4096;
    if (run_.options.stop && run_.report.events_handled % events_per_stop_check == 0 && run_.options.stop())
      run_.report.stopped = stopped_by_user;
    switch (event.kind) {
      case QueueEvent::Kind::transfer_starts:
        if (network_.is_current(event)) network_.begin_transfer(event.id);
        return;
      case QueueEvent::Kind::arrival:
        if (network_.is_current(event)) on_arrival(event.id);
        return;
      case QueueEvent::Kind::computed:
        return on_computed(event);
      case QueueEvent::Kind::failed:
        return requests_.on_failed(event);
      case QueueEvent::Kind::timeout:
        return requests_.on_timeout(event.id);
      case QueueEvent::Kind::refresh:
        return trainers_.refresh(event.id);
      case QueueEvent::Kind::averaged:
        return steps_.on_averaged(event.id);
      case QueueEvent::Kind::fetched:
        if (downloads_.is_current(event)) end_fetch(event.id);
        return;
      case QueueEvent::Kind::device_event:
        return apply_device_events();
      case QueueEvent::Kind::rebalance:
        return rebalance();
    }
  }
  void on_arrival(int number) {
    const SwarmNetwork::Message message = network_.arrive(number);
    if (message.purpose == SwarmNetwork::Purpose::state_download)
      end_fetch(message.owner);
    else
      requests_.on_message(number, message);
  }
  /// A peer that is found to be faulty leaves permanently, and all gradients that it holds are lost.
  void on_computed(const QueueEvent& event) {
    if (!peers_.finish(event)) return;
    const int slot = peers_[event.id].current.slot;
    const CorruptCall call = slot == no_index ? CorruptCall() : requests_.on_computed(slot);
    if (call.number > 0 && !peers_[call.peer].banned) {
      peers_[call.peer].banned = true;
      verification_.record_detection(call.peer, run_.now, call.number, run_.costs.samples());
      run_.note(fmt::format("{} is banned as faulty", run_.name(call.peer)));
      leave(call.peer);
      throughput_.update(run_, peers_);
    }
    peers_.serve_next(event.id);
  }

  void apply_device_events() {
    while (const DeviceEvent* event = device_timeline_.take(run_.now)) {
      if (event->kind == DeviceEvent::Kind::speed) {
        peers_.change_speed(event->device, event->speed);
        run_.note(fmt::format("{} computes at {:g} times its speed", run_.name(event->device), event->speed));
      } else if (event->kind == DeviceEvent::Kind::leave) {
        leave(event->device);
      } else {
        join(event->device);
      }
    }
    throughput_.update(run_, peers_);
    push_next_device_event();
  }
  void push_next_device_event() {
    const double date = device_timeline_.next_date();
    if (date < infinity) run_.push(std::max(run_.now, date), {QueueEvent::Kind::device_event}, 1);
  }
  /// Everything that the device holds, and everything in transit to or from it, is lost.
  void leave(int device) {
    Peer& peer = peers_[device];
    if (!peer.available) return;
    ++run_.report.failures;
    run_.note(peer.stage == no_index ? fmt::format("{} leaves", run_.name(device))
                                     : fmt::format("{} leaves stage {}", run_.name(device), peer.stage));
    peer.down_since = run_.now;
    requests_.on_peer_left(device);
    stop_serving(device);
    if (peer.fetching) {
      downloads_.cancel(device);
      peer.end_fetching(run_.now);
    }
    steps_.lose(device);
    peer.available = false;
    peer.stage = no_index;
    ++peer.life;
    for (const int other : downloads_.from(device)) {
      downloads_.cancel(other);
      if (!downloads_.start(other)) end_fetch(other);
    }
  }
  void join(int device) {
    Peer& peer = peers_[device];
    if (peer.available || peer.banned) return;
    ++run_.report.joins;
    peer.available = true;
    peer.down_s += run_.now - peer.down_since;
    const int stage = most_loaded_stage(stage_loads(peers_, requests_.blocked()), true);
    run_.note(fmt::format("{} joins stage {}", run_.name(device), stage));
    fetch(device, stage);
  }
  void rebalance() {
    run_.push(run_.now + *run_.setup.rebalance_s, {QueueEvent::Kind::rebalance}, 1);
    const std::vector<StagePeers> loads = stage_loads(peers_, requests_.blocked());
    if (const auto best = best_move(peers_, loads, run_.setup.require_beneficial_moves))
      move(best->first, best->second);
  }
  /// The peer keeps its gradients of the stage that it leaves, and takes part in that stage's next
  /// all-reduce.
  void move(int device, int stage) {
    ++run_.report.moves;
    run_.note(
        fmt::format("{} moves from stage {} to stage {}", run_.name(device), peers_[device].stage, stage));
    requests_.on_peer_moves(device);
    stop_serving(device);
    fetch(device, stage);
    throughput_.update(run_, peers_);
  }
  /// Before the first step of a stage its weights are initialized from the seed, so nothing is fetched.
  void fetch(int device, int stage) {
    Peer& peer = peers_[device];
    peer.stage = stage;
    peer.fetching = true;
    peer.fetching_since = run_.now;
    if (steps_.count(stage) == 0 || !downloads_.start(device)) end_fetch(device);
  }
  void end_fetch(int device) {
    downloads_.end(device);
    peers_[device].end_fetching(run_.now);
    begin_serving(device);
    throughput_.update(run_, peers_);
  }
  void begin_serving(int device) {
    peers_[device].serving = true;
    announcements_.begin(peers_[device].stage, device, run_.now);
    requests_.wake_blocked(peers_[device].stage);
  }
  void stop_serving(int device) {
    Peer& peer = peers_[device];
    if (!peer.serving) return;
    peers_.abort(device);
    DTFM_ASSERT(peer.waiting.empty());
    peer.serving = false;
    announcements_.end(peer.stage, device, run_.now);
  }

  bool is_over() const {
    if (!run_.report.stopped.empty()) return true;
    if (!run_.options.steps) return false;
    for (int stage = 0; stage < run_.setup.stages; ++stage)
      if (steps_.count(stage) < *run_.options.steps) return false;
    return true;
  }
  SwarmReport finish() {
    const double now = run_.now;
    SwarmReport& report = run_.report;
    report.length_s = now;
    steps_.add_to_report();
    throughput_.add_to_report(run_, peers_);
    for (int device = 0; device < run_.devices(); ++device)
      report.devices.push_back(device_report(device, peers_[device], now));
    report.links = network_.reports();
    report.messages = network_.messages_sent();
    report.shared_messages = network_.shared_messages();
    report.link_updates = network_.link_updates();
    report.verification = std::move(verification_.report);
    if (now > 0) {
      report.useful_samples_per_s = static_cast<double>(report.useful_samples) / now;
      report.tokens_per_s = report.useful_samples_per_s * sequence_length(run_.problem.job.model);
    }
    if (report.optimal_samples_per_s > 0)
      report.share_of_optimum = report.useful_samples_per_s / report.optimal_samples_per_s;
    return std::move(report);
  }

  SwarmContext run_;
  double end_;  // s
  SwarmNetwork network_;
  DeviceTimeline device_timeline_;
  Announcements announcements_;
  Verification verification_;
  Peers peers_;
  StateDownloads downloads_;
  OptimizerSteps steps_;
  Trainers trainers_;
  Requests requests_;
  ThroughputMeter throughput_;
};

}  // namespace

SwarmReport simulate_swarm(const Problem& problem, const SwarmSetup& setup, const Scenario& scenario,
                           const SwarmOptions& options) {
  check(problem, setup, scenario, options);
  return SwarmRun(problem, setup, scenario, options).run();
}

}  // namespace dtfm::sim
