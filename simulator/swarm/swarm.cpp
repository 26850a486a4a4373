#include "simulator/swarm/swarm.hpp"

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "simulator/swarm/swarm_run.hpp"

namespace dtfm::sim {
namespace {

/// Throws Error for invalid values and for features that are not modelled.
void check(const Problem& problem, const SwarmSetup& setup, const Scenario& scenario,
           const SwarmOptions& options) {
  const Job& job = problem.job;
  const int layers = layer_count(job.model);
  if (problem.topology->devices.empty()) throw Error("", "a swarm requires at least one device");
  if (setup.stages < 1 || setup.stages > layers)
    throw Error("", fmt::format("the number of stages must be from 1 to {}; found {}", layers, setup.stages));
  if (setup.trainers && *setup.trainers < 1) throw Error("", "a swarm requires at least one trainer");
  if (setup.in_flight && *setup.in_flight < 1)
    throw Error("", "a trainer requires at least one micro-batch in flight");
  if (setup.rebalance_s && !(*setup.rebalance_s > 0))
    throw Error("", "the rebalancing period must be longer than 0 s");
  if (!(setup.verify >= 0 && setup.verify <= 1))
    throw Error("", "the share of verified calls must be from 0 to 1");
  if (!(setup.faulty_share >= 0 && setup.faulty_share <= 1))
    throw Error("", "the share of faulty peers must be from 0 to 1");
  if (job.training.global_batch < 1 || job.execution.micro_batch < 1)
    throw Error("", "a swarm requires a global batch and a micro-batch of at least one sample");
  if (!(scenario.horizon_s.value_or(options.seconds) > 0))
    throw Error("", "the simulated time of a swarm must be longer than 0 s");
  if (job.parallelism.tensor != 1)
    throw Error("", "swarms do not support tensor parallelism: their peers are single devices");
  if (!scenario.link_traces.empty()) throw Error("", "swarms do not support traces of links");
}

}  // namespace

SwarmReport simulate_swarm(const Problem& problem, const SwarmSetup& setup, const Scenario& scenario,
                           const SwarmOptions& options) {
  check(problem, setup, scenario, options);
  return SwarmRun(problem, setup, scenario, options).run();
}

}  // namespace dtfm::sim
