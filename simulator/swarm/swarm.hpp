// Simulation of SWARM parallelism: stages are served by peers that join and leave, and micro-batches are
// routed through whichever peers are available (Ryabinin et al., SWARM Parallelism, ICML 2023, arXiv
// 2301.11913, and the authors' released code). docs/how-it-works.md describes the model and its limits.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/problem.hpp"
#include "simulator/report/sim_report.hpp"
#include "simulator/report/verification_report.hpp"
#include "simulator/scenario/scenario.hpp"

namespace dtfm::sim {

enum class SwarmTransport {
  relay,        // activations go through the trainer at every stage, as in the released code
  peer_to_peer  // activations go directly from peer to peer, as in the paper
};

/// How a job runs as a swarm. Layers are split as evenly as possible into stages. A stage makes an optimizer
/// step when it has the job's global batch. Every backward pass recomputes its forward pass, whatever the
/// job's recomputation setting.
struct SwarmSetup {
  int stages = 1;  // from 1 to the number of layers
  /// Number of trainers. They are assigned to the sites in turn, and to the devices of a site in turn, whose
  /// links they use. Empty: one per device for `relay`, because all traffic of the peers then goes through
  /// trainers; otherwise one per four devices.
  std::optional<int> trainers = {};
  /// Micro-batches in flight per trainer. Empty: as many as give four per device.
  std::optional<int> in_flight = {};
  SwarmTransport transport = SwarmTransport::relay;
  std::optional<double> rebalance_s = {};  // period of adaptive rebalancing, s; empty: no rebalancing
  /// Allows a move only if the stage that the peer leaves stays faster than the stage that it joins is now,
  /// by the rates of their peers. With false, a peer moves whenever loads differ, as in the paper.
  bool require_beneficial_moves = true;
  bool delayed_update = false;  // all-reduce and step overlap with the next batch, one step stale
  double verify = 0;            // share of the calls that a second peer verifies, 0 to 1
  double faulty_share = 0;      // share of the peers that are faulty (Byzantine), 0 to 1
};

/// An event in the life of a micro-batch or the gradients of a stage, for observers.
struct SwarmEvent {
  enum class Kind {
    issued,     // a trainer starts the micro-batch
    forward,    // the peer has computed the forward pass of the micro-batch (repeated after a failure)
    gradient,   // the gradient of the micro-batch is added to those that the peer holds for the stage
    lost,       // the gradients that the peer holds for the stage are lost
    stepped,    // the stage has applied the gradients of its all-reduce, except those lost since its start
    averaging,  // the all-reduce of the stage starts
    finished    // the micro-batch has passed all stages in both directions
  };
  Kind kind = Kind::issued;
  double date = 0;             // s
  long long micro_batch = -1;  // number since the start; −1: none
  int stage = -1, peer = -1;   // `peer` is a device; −1: none
};

struct SwarmOptions {
  double seconds = 3600;                           // simulated time; a horizon of the scenario replaces it
  std::optional<int> steps;                        // the run ends when every stage has made this many steps
  std::uint64_t seed = 0;                          // added to the scenario's seed
  std::function<bool()> stop;                      // called regularly, if given; true ends the run
  std::function<void(const SwarmEvent&)> observe;  // may be empty
};

/// The k-th optimizer step, from its start in the first stage to its end in the last stage.
struct SwarmStep {
  double start_s = 0, end_s = 0;
};

/// The time of one device. Computing, fetching the state of a stage, being idle and being down add up to the
/// length of the run.
struct SwarmDevice {
  int device = 0;
  int stage = -1;  // at the end of the run; −1: unavailable
  double compute_s = 0, fetching_s = 0, idle_s = 0, down_s = 0;
  long long visits = 0;  // forward and backward passes that it computed
};

struct SwarmStage {
  std::pair<int, int> layers;  // first, last + 1
  int peers = 0;               // number of serving peers at the end of the run
  int steps = 0;
  long long accepted = 0;  // samples whose gradients have been applied to its parameters
  long long held = 0;      // samples whose gradients its peers hold at the end of the run
  long long lost = 0;      // samples whose gradients were lost because peers left
  double blocked_s = 0;    // time without a serving peer
};

struct SwarmReport {
  double length_s = 0;
  long long samples = 0;  // samples that have passed all stages, forward and backward
  /// The samples whose gradients are accepted or held, at the stage that has the fewest of them: the progress
  /// that training has made.
  long long useful_samples = 0;
  double useful_samples_per_s = 0, tokens_per_s = 0;
  /// Time average of the throughput of the best assignment of the available peers to stages, without network
  /// and optimizer steps. Exact for one kind of peers, and for several kinds if there are few peers;
  /// otherwise an upper bound (see `optimum_is_exact`).
  double optimal_samples_per_s = 0;
  bool optimum_is_exact = true;
  double share_of_optimum = 0;  // useful ÷ optimal samples per second; 0 if the optimum is 0
  /// The same time average for the actual assignments: the throughput of the peers at the stages they serve.
  double assigned_samples_per_s = 0;
  std::vector<SwarmStep> steps;  // completed by all stages
  std::vector<SwarmStage> stages;
  std::vector<SwarmDevice> devices;                // all devices of the topology
  std::vector<LinkReport> links;                   // with traffic; the most bytes first
  std::vector<EventReport> events;                 // failures, joins, moves, changes of speed
  double lost_work_s = 0;                          // device-seconds of computations whose results were lost
  long long bans = 0, timeouts = 0, restarts = 0;  // restarts: micro-batches that started again
  long long failures = 0, joins = 0, moves = 0;
  VerificationReport verification;
  std::string stopped;  // why the run stopped before its end; empty: it did not
  long long visits = 0, events_handled = 0;
  long long messages = 0, shared_messages = 0;  // shared: over links shared with other messages
  long long link_updates = 0;                   // LevelNetwork::update_count
};

/// Simulates the job as a swarm on the devices of the topology, under `scenario` (failures, joins, speeds,
/// jitter; its detection time is the time in which an error reaches the trainer). The same arguments give the
/// same report. Memory use grows not with the simulated time but with the steps and events reported. Throws
/// Error for an invalid setup, for layers whose time on a device is unknown, and for features that are not
/// modelled: traces of links and tensor parallelism.
SwarmReport simulate_swarm(const Problem& problem, const SwarmSetup& setup, const Scenario& scenario,
                           const SwarmOptions& options);

}  // namespace dtfm::sim
