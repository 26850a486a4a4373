// The events of a replay, their order, and its records of flows in progress.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "simulator/graph/graph_network.hpp"

namespace dtfm::sim {

/// The order of events at the same time. Tasks start after all of these.
enum EventRank : unsigned { ends, failures, changes };

struct Event {
  enum class Kind : std::uint8_t { task_end, overhead_end, latency_end, down, up, change };
  Kind kind = Kind::task_end;
  int id = 0;  // the number of a task, failure or profile, depending on the kind
};

/// Tasks are prefetched this many events ahead. Handling that many events hides the memory latency; any value
/// from 4 to 16 works as well.
inline constexpr std::size_t prefetch_distance = 8;

/// A flow or shared computation that is active in the fluid network. It ends `trailing_latency` seconds after
/// its last byte.
struct ActiveFlow {
  int task = 0;
  double trailing_latency = 0;
};

/// Stores the parameters of flows under numbers that are reused.
class FlowParameterPool {
 public:
  int store(const FlowParameters& parameters) {
    if (unused_.empty()) {
      flow_parameters_.push_back(parameters);
      return static_cast<int>(flow_parameters_.size()) - 1;
    }
    const int slot = unused_.back();
    unused_.pop_back();
    flow_parameters_[at(slot)] = parameters;
    return slot;
  }
  FlowParameters take(int slot) {
    unused_.push_back(slot);
    return flow_parameters_[at(slot)];
  }

 private:
  std::vector<FlowParameters> flow_parameters_;
  std::vector<int> unused_;
};

}  // namespace dtfm::sim
