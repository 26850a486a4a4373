#include "simulator/swarm/swarm_run.hpp"

#include <algorithm>
#include <limits>

#include "simulator/engine/clock.hpp"

namespace dtfm::sim {
namespace {

/// Number of the first random stream for jitter. Streams 0, 1, … belong to the trainers.
constexpr std::uint64_t first_jitter_stream = std::uint64_t{1} << 32;
constexpr long long events_per_stop_check = 4096;

}  // namespace

SwarmRun::SwarmRun(const Problem& problem, const SwarmSetup& setup, const Scenario& scenario,
                   const SwarmOptions& options)
    : problem_(problem),
      setup_(setup),
      scenario_(scenario),
      options_(options),
      seed_(options.seed + scenario.seed),
      end_(round_to_tick(scenario.horizon_s.value_or(options.seconds))),
      costs_(problem, setup.stages),
      network_(problem.topology, problem.constants, queue_),
      announcements_(setup.stages),
      device_timeline_(scenario, problem.topology->size()),
      verification_(setup.verify, setup.faulty_share, problem.topology->size(), seed_),
      peers_(problem.topology->devices.size()),
      stages_(at(setup.stages)) {
  for (Stage& stage : stages_) {
    stage.held_by.resize(peers_.size());
    stage.averaging_by.resize(peers_.size());
  }
  if (scenario.compute_jitter.cv > 0)
    for (std::size_t device = 0; device < peers_.size(); ++device)
      jitter_.emplace_back(Rng::for_task(seed_, first_jitter_stream + device), scenario.compute_jitter.cv);
}

SwarmReport SwarmRun::run() {
  while (const DeviceEvent* event = device_timeline_.take(0)) {
    Peer& peer = peers_[at(event->device)];
    if (event->kind == DeviceEvent::Kind::speed)
      peer.factor = event->speed;
    else
      peer.available = event->kind == DeviceEvent::Kind::join;
  }
  assign_peers();
  on_devices_changed();
  start_trainers();
  push_next_device_event();
  if (setup_.rebalance_s) queue_.push(round_to_tick(*setup_.rebalance_s), 1, {QueueEvent::Kind::rebalance});
  while (!is_over()) {
    network_.update_rates(now_);
    const double moved = std::max(now_, round_to_tick(network_.next_end()));
    const double next = queue_.empty() ? moved : std::min(moved, queue_.next_date());
    if (!(next <= end_)) break;
    now_ = next;
    ++report_.events_handled;
    if (moved <= next)
      network_.end_next(now_);
    else
      handle(queue_.pop());
  }
  if (report_.stopped.empty() && !is_over()) now_ = end_;
  return finish();
}

bool SwarmRun::is_over() const {
  if (!report_.stopped.empty()) return true;
  return options_.steps && std::all_of(stages_.begin(), stages_.end(),
                                       [&](const Stage& stage) { return stage.steps >= *options_.steps; });
}

void SwarmRun::handle(const QueueEvent& event) {
  if (options_.stop && report_.events_handled % events_per_stop_check == 0 && options_.stop())
    report_.stopped = stopped_by_user;
  switch (event.kind) {
    case QueueEvent::Kind::transfer_starts:
      if (network_.is_current(event)) network_.begin_transfer(event.id);
      return;
    case QueueEvent::Kind::arrival: {
      if (!network_.is_current(event)) return;
      const SwarmNetwork::Message& message = network_.message(event.id);
      if (message.purpose != state_download) return on_message(event.id);
      const int peer = message.owner;
      network_.arrive(event.id, now_);
      return end_fetch(peer);
    }
    case QueueEvent::Kind::computed:
      return on_computed(event);
    case QueueEvent::Kind::failed:
      if (slots_[at(event.id)].attempt == event.generation) on_failed(event.id);
      return;
    case QueueEvent::Kind::timeout:
      return on_timeout(event);
    case QueueEvent::Kind::refresh:
      return refresh_all(event.id);
    case QueueEvent::Kind::averaged:
      return on_averaged(event.id);
    case QueueEvent::Kind::fetched:
      if (peers_[at(event.id)].fetching && peers_[at(event.id)].generation == event.generation)
        end_fetch(event.id);
      return;
    case QueueEvent::Kind::device_event:
      return apply_device_events();
    case QueueEvent::Kind::rebalance:
      return rebalance();
  }
}

SwarmReport SwarmRun::finish() {
  accumulate_throughput();
  report_.length_s = now_;
  report_stages();
  report_devices();
  report_.links = network_.reports(now_);
  report_.messages = network_.messages_sent();
  report_.shared_messages = network_.shared_messages();
  report_.link_updates = network_.link_updates();
  report_.verification = std::move(verification_.report);
  if (now_ > 0) {
    report_.useful_samples_per_s = static_cast<double>(report_.useful_samples) / now_;
    report_.tokens_per_s = report_.useful_samples_per_s * sequence_length(problem_.job.model);
    report_.optimal_samples_per_s = optimal_samples_ / now_;
    report_.assigned_samples_per_s = assigned_samples_ / now_;
  }
  if (report_.optimal_samples_per_s > 0)
    report_.share_of_optimum = report_.useful_samples_per_s / report_.optimal_samples_per_s;
  return std::move(report_);
}

void SwarmRun::report_stages() {
  report_.useful_samples = std::numeric_limits<long long>::max();
  int steps = std::numeric_limits<int>::max();
  for (int number = 0; number < costs_.stages(); ++number) {
    const Stage& stage = stages_[at(number)];
    SwarmStage it;
    it.layers = costs_.layers(number);
    it.peers = stage.serving;
    it.steps = stage.steps;
    it.accepted = stage.accepted;
    it.lost = stage.lost;
    it.held = stage.held;
    for (const HeldGradients& held : stage.averaging_by) it.held += held.samples;
    it.blocked_s = stage.blocked_s + (stage.serving == 0 ? now_ - stage.blocked_since : 0);
    report_.useful_samples = std::min(report_.useful_samples, it.accepted + it.held);
    steps = std::min(steps, stage.steps);
    report_.stages.push_back(it);
  }
  report_.steps.resize(at(steps));
}

void SwarmRun::report_devices() {
  for (int device = 0; device < problem_.topology->size(); ++device) {
    const Peer& peer = peers_[at(device)];
    SwarmDevice it;
    it.device = device;
    it.stage = peer.stage;
    it.compute_s = peer.compute_s + (peer.busy ? now_ - peer.started_at : 0);
    it.fetching_s = peer.fetching_s + (peer.fetching ? now_ - peer.fetching_since : 0);
    it.down_s = peer.down_s + (peer.available ? 0 : now_ - peer.down_since);
    it.idle_s = std::max(0.0, now_ - it.compute_s - it.fetching_s - it.down_s);
    it.visits = peer.visits;
    report_.devices.push_back(it);
  }
}

}  // namespace dtfm::sim
