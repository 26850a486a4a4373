// What happens in a replay, in which order, and what it keeps of flows meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "simulator/graph/graph_network.hpp"

namespace dtfm::sim {

/// In the order in which they come at one instant; starts come after all of them.
enum EventRank : unsigned { ends, failures, changes };

struct Event {
  enum class Kind : std::uint8_t { task_end, overhead_end, latency_end, down, up, change };
  Kind kind = Kind::task_end;
  int id = 0;  // a task; a failure; a profile
};

/// So far ahead tasks are fetched from memory: some events take as long as that (any number from 4 to 16
/// does).
inline constexpr std::size_t prefetch_distance = 8;

/// A flow or shared computation that the network moves; its end comes `tail` seconds after its last byte.
struct ActiveFlow {
  int task = 0;
  double trailing_latency = 0;
};

/// Terms of flows, by numbers that are used again.
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
