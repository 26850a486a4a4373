// Scenarios in which every iteration of a run is replayed.
#pragma once

#include <vector>

#include "planner/core/index.hpp"
#include "simulator/scenario/scenario.hpp"

namespace dtfm {

/// The same scenario with a trace that changes nothing. As it has a last step in the far future, no iteration
/// of a plan that sends messages counts as the repetition of another one.
inline sim::Scenario with_full_replay(sim::Scenario scenario, int devices) {
  const std::vector<bool> all(at(devices), true);
  scenario.link_traces.push_back(
      {sim::LinkTrace::Quantity::bandwidth, all, all, false, static_cast<int>(scenario.traces.size())});
  scenario.traces.push_back({{{0, 1}, {1e9, 1}}, 0, true});
  return scenario;
}

}  // namespace dtfm
