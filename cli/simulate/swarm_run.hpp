// A swarm in place of a plan, for dtfm-sim.
#pragma once

#include "cli/common/interrupt.hpp"
#include "cli/simulate/simulate_options.hpp"
#include "planner/core/problem.hpp"
#include "simulator/io/swarm_json.hpp"
#include "simulator/scenario/scenario.hpp"

namespace dtfm::cli {

struct RecordedSwarm {
  io::SwarmRecord swarm;
  sim::SimReport report;
};

/// As simulate_as_swarm, with progress on stderr.
RecordedSwarm run_swarm(const SimulateOptions& options, const Problem& problem, const sim::SwarmSetup& setup,
                        const sim::Scenario& scenario, const InterruptWatch& watch);

}  // namespace dtfm::cli
