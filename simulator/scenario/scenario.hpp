// What happens to the machines and the network while a plan runs: the scenario file of the contract as plain
// values, names resolved against a topology.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtfm {

/// Values that hold from their date to the next one's.
struct Trace {
  struct Step {
    double date, value;  // s; a factor, or bit/s, or s
  };
  std::vector<Step> steps;  // dates increase strictly
  double period = 0;        // s after which it all comes again; 0: the last value stays
  bool relative = false;    // values multiply what the topology says
};

/// A trace on every link from a device of `from` to a device of `to`.
struct LinkTrace {
  enum class Quantity { bandwidth, latency };
  Quantity quantity = Quantity::bandwidth;
  std::vector<bool> from, to;  // of each device
  int trace = 0;               // index into Scenario::traces
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

struct Scenario {
  std::string name;
  std::uint64_t seed = 0;
  std::optional<double> horizon_s;  // nothing: so many iterations
  std::vector<Trace> traces;
  std::vector<LinkTrace> link_traces;
  std::vector<DeviceEvent> events;  // by date; a device leaves before it joins
  ComputeJitter compute_jitter;
  std::string on_departure =
      "restart-without-pipeline";  // a policy by name: simulator/run/departure_policy.hpp
  double detection_s = 0;          // from a departure to the moment at which the others know
};

}  // namespace dtfm
