// A swarm in place of a plan, for dtfm-sim.
#pragma once

#include "cli/interrupt.hpp"
#include "cli/simulate_options.hpp"
#include "planner/core/problem.hpp"
#include "simulator/io/swarm_json.hpp"
#include "simulator/scenario/scenario.hpp"

namespace dtfm {

struct RecordedSwarm {
  SwarmRecord swarm;
  SimReport report;
};

/// As simulate_as_swarm, with progress on stderr.
RecordedSwarm swarm_run(const SimulateOptions& options, const Problem& problem, const SwarmSetup& setup,
                        const Scenario& scenario, const InterruptWatch& watch);

}  // namespace dtfm
