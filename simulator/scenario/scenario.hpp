// What happens to devices and network during a run: the contents of a scenario file as plain values, with
// names resolved against a topology.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtfm::sim {

/// A sequence of values, each of which holds until the time of the next one. Before the first time the value
/// of the topology holds.
struct Trace {
  struct Step {
    double date, value;  // s; a factor, bit/s or s
  };
  /// At least one step. Times are at least 0, strictly increase and span less than a period.
  std::vector<Step> steps;
  double period = 0;      // s after which the trace repeats; 0: the last value stays
  bool relative = false;  // values are factors on those of the topology
};

/// Applies a trace to every link from a device of `from` to a device of `to`.
struct LinkTrace {
  enum class Quantity { bandwidth, latency };
  Quantity quantity = Quantity::bandwidth;
  std::vector<bool> from, to;    // [device]
  bool both_directions = false;  // also applies to links from `to` to `from`
  int trace = 0;                 // index into Scenario::traces
};

/// A device that leaves, joins or changes its speed at time `date` (s).
struct DeviceEvent {
  enum class Kind { leave, join, speed };
  double date = 0;
  int device = 0;
  Kind kind = Kind::leave;
  double speed = 1;      // for Kind::speed: factor on Device::speed
  double warning_s = 0;  // for Kind::leave: how long before `date` it is known
};

struct ComputeJitter {
  double cv = 0;  // standard deviation of a lognormal factor of mean 1 on every computation; 0: no jitter
};

/// The source of weights that no available device holds. It never fails. Without a period it has the weights
/// of the last completed iteration, and writing it costs nothing. With a period it has those of the iteration
/// after which it was last written, and the run waits while it is written.
struct Checkpoint {
  double bandwidth = 0;       // bit/s per device that reads or writes; 0: limited only by the network
  std::optional<int> device;  // device whose links reach the checkpoint; empty: equally near to all devices
  double period_s = 0;        // minimum time between two checkpoints; 0: no period
  /// The period is that of the plan; without one, `simulate` takes Young and Daly's
  /// (simulator/run/checkpoint_period.hpp).
  bool is_period_automatic = false;
};

/// What a run does when devices leave (simulator/run/failure_policy.hpp).
enum class FailurePolicy : unsigned char {
  /// Pipelines that lost a device pause until it rejoins; the others take over their micro-batches.
  restart_without_pipeline,
  /// All pipelines wait until the device rejoins.
  wait,
  /// An unused device with enough memory replaces the one that left; without one, as
  /// restart_without_pipeline.
  spare,
  /// All devices load the last checkpoint; pipelines that lost a device pause until it rejoins.
  restart,
  /// Unaffected pipelines resume the iteration and take over the micro-batches of the others, which pause
  /// until they are complete.
  drop_pipeline,
  /// The device of the next stage, which has a copy of the weights, also computes the stage; if it has left
  /// too, as restart_without_pipeline.
  redundant,
  /// The planner makes a new plan for the available devices; without one, as restart_without_pipeline.
  replan,
};

struct Scenario {
  std::string name;
  std::uint64_t seed = 0;
  std::optional<double> horizon_s;  // simulated time of the run; empty: a number of iterations applies
  std::vector<Trace> traces;
  std::vector<LinkTrace> link_traces;
  /// In order of time. All devices are available before the first event. Only available devices leave, and
  /// only unavailable devices join.
  std::vector<DeviceEvent> events;
  ComputeJitter compute_jitter;
  FailurePolicy on_failure = FailurePolicy::restart_without_pipeline;
  double detection_s = 0;                  // time from a failure to its detection
  std::optional<std::vector<int>> spares;  // devices that may replace others; empty: all unused ones
  /// Pipelines with a device slower than this share of the median speed are excluded; 0: none.
  double exclude_slower_than = 0;
  std::optional<Checkpoint> checkpoint;  // empty: weights that no available device holds are lost
};

/// Whether runs with different seeds can differ.
inline bool is_random(const Scenario& scenario) {
  return scenario.compute_jitter.cv > 0;
}

inline bool has_automatic_period(const Scenario& scenario) {
  return scenario.checkpoint && scenario.checkpoint->is_period_automatic;
}

}  // namespace dtfm::sim
