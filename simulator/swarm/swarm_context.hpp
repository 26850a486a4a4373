// What all parts of a swarm run share: its inputs, its clock and events, and its report.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "core/base/index.hpp"
#include "simulator/engine/clock.hpp"
#include "simulator/engine/event_queue.hpp"
#include "simulator/swarm/swarm.hpp"
#include "simulator/swarm/swarm_costs.hpp"

namespace dtfm::sim {

/// `generation` identifies obsolete events: it is compared with a counter of the message, peer or slot that
/// grows when an activity is cancelled.
struct QueueEvent {
  enum class Kind : std::uint8_t {
    transfer_starts,  // the overhead of message `id` is over
    arrival,          // message `id` arrives
    computed,         // peer `id` finishes a computation
    failed,           // the trainer of slot `id` learns that its request has failed
    timeout,          // the request of slot `id` may have timed out
    refresh,          // trainer `id` reads the announcements
    averaged,         // stage `id` finishes averaging
    fetched,          // peer `id` has read its state from the checkpoint
    device_event,     // the next event of the scenario is due
    rebalance
  };
  Kind kind;
  int id = 0;
  std::uint32_t generation = 0;
};

using SwarmQueue = EventQueue<QueueEvent>;

struct SwarmContext {
  const Problem& problem;
  const SwarmSetup& setup;
  const Scenario& scenario;
  const SwarmOptions& options;
  std::uint64_t seed = options.seed + scenario.seed;
  SwarmCosts costs = SwarmCosts(problem, setup.stages);
  double now = 0;  // s
  SwarmQueue queue = {};
  SwarmReport report = {};

  int devices() const { return problem.topology->size(); }
  const std::string& name(int device) const { return problem.topology->devices[at(device)].id; }
  /// `date` (s) is rounded to the grid of simulated time. At equal times, lower ranks come first.
  void push(double date, const QueueEvent& event, unsigned rank = 0) {
    queue.push(round_to_tick(date), rank, event);
  }
  void note(std::string text) { report.events.push_back({now, std::move(text)}); }
  void emit(SwarmEvent::Kind kind, long long micro_batch, int stage, int peer) const {
    if (options.observe) options.observe({kind, now, micro_batch, stage, peer});
  }
};

}  // namespace dtfm::sim
