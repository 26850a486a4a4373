// Whether any plan fits in memory: no plan that a search finds is ruled out, and advised changes work.
#include <algorithm>
#include <vector>

#include "planner/cost/iteration_time/iteration_time.hpp"
#include "core/cluster/more_hosts.hpp"
#include "planner/search/iteration_time/feasible_changes.hpp"
#include "planner/search/iteration_time/least_memory.hpp"
#include "tests/support/arbitrary_plan.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/heterogeneous_hosts.hpp"
#include "tests/support/open_settings.hpp"

using namespace dtfm;
using namespace dtfm::search;

namespace {

/// Sets the memory of every GPU model to what the plan needs of it, so that the plan just fits.
void fit_memory(const PlanCandidate& found, Topology& topology) {
  std::vector<double> needed(topology.gpus.size());
  for (const cost::DeviceMemory& it : device_memory(found.job->model, found.plan)) {
    double& most = needed[at(topology.devices[at(it.device)].gpu)];
    most = std::max(most, it.needed);
  }
  for (std::size_t gpu = 0; gpu < needed.size(); ++gpu) topology.gpus[gpu].memory = Bytes(needed[gpu]);
}

LeastMemory least_memory_of(const Problem& problem, const ShapeLimits& limits = {}) {
  Decisions decisions(problem);
  decisions.first();
  return least_memory(decisions, limits);
}

IterationSearchOptions short_search(long long evaluations) {
  IterationSearchOptions options;
  options.common.evaluations = evaluations;
  options.finalists = 16;
  return options;
}

/// 2 hosts of 4 GPUs, on which a transformer of 4 blocks trains 8 sequences.
Problem transformer_problem() {
  Problem problem = host_problem({4, 4}, 8);
  problem.job.automatic = all_open_settings();
  return problem;
}

}  // namespace

TEST_CASE("no plan that a search finds is ruled out by memory") {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(23, seed);
    Problem problem = seed % 2 == 0 ? transformer_problem()
                                    : Problem{random_topology(rng, 4, false), random_chain_job(rng, 6), {}};
    problem.job.automatic = all_open_settings();
    problem.job.automatic[Setting::activations] = problem.job.automatic[Setting::gradients] = false;
    for (Gpu& gpu : problem.topology.edit().gpus) gpu.memory = Bytes(1e15);
    for (const PlanCandidate& it : search_iteration(problem, short_search(3'000)).finalists) {
      Problem tight = problem;
      fit_memory(it, tight.topology.edit());
      CHECK_FALSE(least_memory_of(tight).shortage);
      CHECK_FALSE(least_memory_of(tight, {it.shape().stages, it.shape().replicas}).shortage);
    }
  }
}

TEST_CASE("with every advised change a search finds a plan that fits") {
  int tried = 0;
  for (const double share : {0.9, 0.5, 0.2, 0.02})
    for (const bool has_limits : {false, true}) {
      CAPTURE(share, has_limits);
      Problem problem = transformer_problem();
      problem.job.automatic = {};
      problem.job.execution.schedule = Schedule::gpipe;
      problem.job.execution.micro_batch = has_limits ? 1 : 8;
      IterationSearchOptions options = short_search(2'000);
      if (has_limits) options.limits = {1, 8};
      problem.topology.edit().gpus[0].memory = Bytes(1e15);
      const PlanCandidate free = search_iteration(problem, options).finalists.front();
      double needed = 0;
      for (const cost::DeviceMemory& it : device_memory(free.job->model, free.plan))
        needed = std::max(needed, it.needed);
      problem.topology.edit().gpus[0].memory = Bytes(needed * share);
      if (search_iteration(problem, options).finalists.front().deficit_bytes <= 0) continue;
      const auto changes = feasible_changes(problem, options);
      CHECK_FALSE(changes.empty());
      for (const FeasibleChange& it : changes) {
        Problem changed = problem;
        IterationSearchOptions changed_options = options;
        if (it.frees_stages) changed_options.limits.stages.reset();
        if (it.frees_replicas) changed_options.limits.replicas.reset();
        for (const auto& [setting, value] : it.settings) traits(setting).set(changed.job, value);
        if (it.kind == FeasibleChange::Kind::hosts)
          changed.topology.edit() = with_more_hosts(problem.topology, it.like, it.hosts);
        if (it.kind == FeasibleChange::Kind::memory)
          changed.topology.edit().gpus[0].memory = Bytes(it.gigabytes * 1e9);
        CHECK(search_iteration(changed, changed_options).finalists.front().deficit_bytes <= 0);
        ++tried;
      }
    }
  CHECK(tried >= 5);
}

TEST_CASE("the fewest more hosts are advised") {
  // A stage of one layer needs 160 B of state, 100 B of activations, and 300 B of buffers. One of two layers
  // does not fit, so 8 devices are needed.
  Problem problem{flat_topology({2}, link_of(0.01, 100), link_of(0.1, 25)), chain_job(8, 10, 100), {}};
  problem.topology.edit().gpus[0].memory = Bytes(600);
  problem.job.execution.schedule = Schedule::gpipe;
  problem.job.execution.flush = 1;
  const auto changes = feasible_changes(problem, {});
  REQUIRE_FALSE(changes.empty());
  CHECK(changes.back().kind == FeasibleChange::Kind::hosts);
  CHECK(changes.back().hosts == 6);
}
