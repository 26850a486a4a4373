#include "simulator/swarm/swarm.hpp"

#include <fmt/format.h>

#include "planner/core/error.hpp"
#include "simulator/swarm/swarm_run.hpp"

namespace dtfm::sim {
namespace {

/// Throws Error for what makes no sense, and for what is not modelled.
void check(const Problem& problem, const SwarmSetup& setup, const Scenario& scenario,
           const SwarmOptions& options) {
  const Job& job = problem.job;
  const int layers = layer_count(job.model);
  if (problem.topology.devices.empty()) throw Error("", "a swarm needs devices");
  if (setup.stages < 1 || setup.stages > layers)
    throw Error("", fmt::format("{} stages of {} layers: expected 1 to {}", setup.stages, layers, layers));
  if (setup.trainers && *setup.trainers < 1) throw Error("", "a swarm needs a trainer");
  if (setup.in_flight && *setup.in_flight < 1)
    throw Error("", "a trainer needs at least one micro-batch in flight");
  if (setup.rebalance_s && !(*setup.rebalance_s > 0))
    throw Error("", "the period of rebalancing must be longer than 0 s");
  if (!(setup.verify >= 0 && setup.verify <= 1))
    throw Error("", "the share of calls that are verified must be from 0 to 1");
  if (!(setup.faulty_share >= 0 && setup.faulty_share <= 1))
    throw Error("", "the share of peers that lie must be from 0 to 1");
  if (job.training.global_batch < 1 || job.training.micro_batch < 1)
    throw Error("", "a swarm needs a batch and a micro-batch of at least one sample");
  if (!(scenario.horizon_s.value_or(options.seconds) > 0)) throw Error("", "a swarm runs for more than 0 s");
  if (job.parallelism.tensor != 1)
    throw Error("", "the peers of a swarm are single devices: no tensor parallelism");
  if (!scenario.link_traces.empty()) throw Error("", "traces of links are not modelled in a swarm");
}

}  // namespace

SwarmReport simulate_swarm(const Problem& problem, const SwarmSetup& setup, const Scenario& scenario,
                           const SwarmOptions& options) {
  check(problem, setup, scenario, options);
  return SwarmRun(problem, setup, scenario, options).run();
}

}  // namespace dtfm::sim
