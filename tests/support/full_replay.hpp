// Scenarios in which every iteration of a run is replayed.
#pragma once

#include <vector>

#include "core/base/index.hpp"
#include "simulator/scenario/scenario.hpp"

namespace dtfm {

/// Adds a trace whose only change, after 1e9 s, is to the same value. While a trace is still to change, no
/// iteration is repeated. The plan must send messages, because traces apply only to links that it uses.
inline sim::Scenario with_full_replay(sim::Scenario scenario, int devices) {
  const std::vector<bool> all(at(devices), true);
  scenario.link_traces.push_back(
      {sim::LinkTrace::Quantity::bandwidth, all, all, false, static_cast<int>(scenario.traces.size())});
  scenario.traces.push_back({{{0, 1}, {1e9, 1}}, 0, true});
  return scenario;
}

}  // namespace dtfm
