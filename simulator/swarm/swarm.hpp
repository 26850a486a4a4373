// SWARM parallelism as one call: stages served by peers that come and go, micro-batches that look for their
// way (Ryabinin et al., SWARM Parallelism, ICML 2023, arXiv 2301.11913, and the authors' released code). What
// is modelled, and what is not: simulator/swarm/README.md.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planner/core/problem.hpp"
#include "simulator/report/sim_report.hpp"
#include "simulator/report/verification_report.hpp"
#include "simulator/scenario/scenario.hpp"

namespace dtfm::sim {

enum class SwarmTransport {
  relay,        // activations go to the trainer and back for every stage, as in the released code
  peer_to_peer  // from peer to peer, as the paper draws it
};

/// How a job runs as a swarm. The stages are runs of layers as equal as can be; the optimizer steps when a
/// stage has the job's global batch; a micro-batch is the job's. Every backward computes its forward again,
/// whatever the job says of recomputation.
struct SwarmSetup {
  int stages = 1;  // at least 1, at most the layers
  /// Trainers, dealt to the sites in turn, at their devices in turn, whose links they use. Nothing: one for
  /// every device if they relay, for all bytes of the peers are then theirs too; else one for every four.
  std::optional<int> trainers = {};
  /// Micro-batches that one trainer drives at a time. Nothing: so many that there are four for every device.
  std::optional<int> in_flight = {};
  SwarmTransport transport = SwarmTransport::relay;
  std::optional<double> rebalance_s = {};  // period of adaptive rebalancing; nothing: none
  /// Does a peer stay unless the stage that it would leave stays faster than the one that it would help is,
  /// by the rates of their peers? With false a peer moves whenever loads differ, as the paper says it.
  bool require_beneficial_moves = true;
  bool delayed_update = false;  // all-reduce and step overlap with the next batch, one step stale
  double verify = 0;            // share of the calls that a second peer computes too, 0 to 1
  double faulty_share = 0;             // share of the peers that lie, 0 to 1
};

/// What happens to one micro-batch, for who wants to see all of it.
struct SwarmEvent {
  enum class Kind {
    issued,      // micro_batch, by a trainer
    forward,    // micro_batch is computed at stage by peer (again after a failure)
    gradient,   // micro_batch's gradient at stage is added to those that peer holds
    lost,       // the gradients that peer holds, of stage, are lost
    stepped,    // those that the peers of stage held at the start of its all-reduce, and that were not lost
                // since, are in its parameters
    averaging,  // that all-reduce starts
    finished    // micro_batch is through
  };
  Kind kind = Kind::issued;
  double date = 0;
  long long micro_batch = -1;  // since the start; −1: of none
  int stage = -1, peer = -1;   // a device; −1: of none
};

struct SwarmOptions {
  double seconds = 3600;       // simulated; a scenario's horizon takes their place
  std::optional<int> steps;    // ends the run when every stage has made so many
  std::uint64_t seed = 0;      // with the scenario's: of the wiring's ties and of the jitter
  std::function<bool()> stop;  // asked now and then; nothing: never
  std::function<void(const SwarmEvent&)> observe;  // nothing: nobody looks
};

/// The k-th step of the optimizer, from the first stage that begins it to the last that has it.
struct SwarmStep {
  double start_s = 0, end_s = 0;
};

/// Of one device. Computing, fetching a stage's state, idle and down add up to the length of the run.
struct SwarmDevice {
  int device = 0;
  int stage = -1;  // at the end; −1: it is not there
  double compute_s = 0, fetching_s = 0, idle_s = 0, down_s = 0;
  long long visits = 0;  // forwards and backwards that it computed
};

struct SwarmStage {
  std::pair<int, int> layers;  // first … last + 1
  int peers = 0;               // that serve at the end
  int steps = 0;
  long long accepted = 0;  // samples whose gradients are in its parameters
  long long held = 0;      // whose gradients its peers hold at the end
  long long lost = 0;      // whose gradients were lost with their peers
  double blocked_s = 0;    // that it had no peer that serves
};

struct SwarmReport {
  double length_s = 0;
  long long samples = 0;  // through all stages, forward and backward
  /// Of the stage that has least of them, the samples whose gradients are accepted or held: what training has
  /// from the run.
  long long useful_samples = 0;
  double useful_samples_per_s = 0, tokens_per_s = 0;
  /// Time average over the run of what the best assignment of the living peers to stages could compute,
  /// network and steps apart. Exact for peers of one kind, and of several where they are few; else an upper
  /// bound (`optimum_is_exact`).
  double optimal_samples_per_s = 0;
  bool optimum_is_exact = true;
  double share_of_optimum = 0;  // useful samples per second ÷ that; 0 if nothing could be computed
  /// The same of the assignments that there were: what the peers that serve, where they serve, could compute.
  double assigned_samples_per_s = 0;
  std::vector<SwarmStep> steps;  // that all stages made
  std::vector<SwarmStage> stages;
  std::vector<SwarmDevice> devices;                // all of the topology
  std::vector<LinkReport> links;                   // that carried something, the most bytes first
  std::vector<EventReport> events;                 // departures, joins, moves
  double lost_work_s = 0;                          // device-seconds of computations whose results were lost
  long long bans = 0, timeouts = 0, restarts = 0;  // restarts: micro-batches that began anew
  long long failures = 0, joins = 0, moves = 0;
  VerificationReport verification;
  std::string stopped;  // why before its end; empty: it was not
  long long visits = 0, events_handled = 0, messages = 0, shared_messages = 0;  // shared: with other flows
  long long link_updates = 0;                                                 // LevelNetwork::looks
};

/// Runs the job as a swarm on the devices of the topology, under `scenario` (departures, joins, speeds,
/// jitter; its detection is the time in which an error reaches the trainer). The same arguments give the same
/// report. Its memory does not grow with the simulated time, but by the steps and events that it reports.
/// Throws Error for a setup that makes no sense, for layers whose time on a device is not known, and for what
/// is not modelled: traces of links, tensor parallelism, a time of compressing.
SwarmReport simulate_swarm(const Problem& problem, const SwarmSetup& setup, const Scenario& scenario,
                           const SwarmOptions& options);

}  // namespace dtfm::sim
