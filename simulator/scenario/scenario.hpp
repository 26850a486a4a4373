// What happens to the machines and the network while a plan runs: the scenario file of the contract as plain
// values, names resolved against a topology.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtfm::sim {

/// Values that hold from their date to the next one's; before the first date what the topology says holds.
struct Trace {
  struct Step {
    double date, value;  // s; a factor, or bit/s, or s
  };
  std::vector<Step>
      steps;          // at least one; dates increase strictly, from 0 or later, by less than a period in all
  double period = 0;  // s after which it all comes again; 0: the last value stays
  bool relative = false;  // values multiply what the topology says
};

/// A trace on every link from a device of `from` to a device of `to`, once.
struct LinkTrace {
  enum class Quantity { bandwidth, latency };
  Quantity quantity = Quantity::bandwidth;
  std::vector<bool> from, to;    // of each device
  bool both_directions = false;  // and of links from `to` to `from`
  int trace = 0;                 // index into Scenario::traces
};

/// At `date`, what `device` is from then on.
struct DeviceEvent {
  enum class Kind { leave, join, speed };
  double date = 0;
  int device = 0;
  Kind kind = Kind::leave;
  double speed = 1;  // of kind speed: factor on Device::speed
};

struct ComputeJitter {
  double cv = 0;  // standard deviation ÷ mean of a lognormal factor of mean 1 on every computation; 0: none
};

/// Where weights are that no living device holds. It never fails. Without a period it has those of the last
/// completed iteration and costs nothing to write; with one, those of the iteration after which it was last
/// written, for which the run waits.
struct Checkpoint {
  double bandwidth = 0;  // bit/s that one device reads or writes, however many do; 0: as the network gives
  std::optional<int> device;  // beside which it lies, behind its links; nothing: equally near to all
  double period_s = 0;        // it is written after the first iteration that ends so long after the last one
};

struct Scenario {
  std::string name;
  std::uint64_t seed = 0;
  std::optional<double> horizon_s;  // nothing: so many iterations
  std::vector<Trace> traces;
  std::vector<LinkTrace> link_traces;
  /// By date. All devices are there before the first; one leaves that is there, joins that is not.
  std::vector<DeviceEvent> events;
  ComputeJitter compute_jitter;
  std::string on_failure =
      "restart-without-pipeline";          // a policy by name: simulator/run/failure_policy.hpp
  double detection_s = 0;                  // from a departure to the moment at which the others know
  std::optional<std::vector<int>> spares;  // devices that may take a place; nothing: all that the plan leaves
  double exclude_slower_than = 0;  // of the median speed: pipelines with such a device are left out; 0: none
  std::optional<Checkpoint> checkpoint;  // nothing: weights that no living device holds are lost
};

/// Whether runs with different seeds differ.
inline bool is_random(const Scenario& scenario) {
  return scenario.compute_jitter.cv > 0;
}

}  // namespace dtfm::sim
