// Compares the closed formula of egress cost with every message of the simulator.
#include <cmath>

#include "core/plan/shards.hpp"
#include "planner/cost/iteration_time/iteration_time.hpp"
#include "simulator/simulate.hpp"
#include "tests/support/arbitrary_plan.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::cost;
using namespace dtfm::sim;

namespace {

/// Sets a random price for every pair of sites and direction; some have none.
void set_prices(Rng& rng, Topology& topology) {
  for (Link& link : std::get<RuleLinks>(topology.links).links)
    if (rng.below(4) != 0) link.egress = DollarsPerByte(random_size(rng, 1e-12, 1e-9));
}

/// Returns the egress cost of an iteration from the bytes sent between sites.
double simulated_usd(const Problem& problem, const Plan& plan) {
  SimOptions options;
  options.iterations = 1;
  const SimReport report = simulate(problem, plan, {}, options);
  REQUIRE(report.iterations.size() == 1);
  const auto& rules = std::get<RuleLinks>(problem.topology->links);
  double usd = 0;
  for (const LinkReport& it : report.links)
    usd += it.bytes * rules.links[at(rules.table(it.from, it.to))].egress.value();
  return usd;
}

double egress_usd(const Problem& problem, const Plan& plan) {
  const IterationModel model(problem, stage_sizes(plan),
                             std::make_shared<const NetworkCost>(problem.topology, problem.constants));
  return estimate_iteration(model, plan).egress_usd;
}

}  // namespace

TEST_CASE("egress costs what the simulator's messages cost for any plan and schedule and sync") {
  int nonzero_costs = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    Rng rng = Rng::for_task(seed, 7);
    Problem problem{random_topology(rng, 1 + static_cast<int>(rng.below(9)), rng.below(2) == 0),
                    random_chain_job(rng, 2 + static_cast<int>(rng.below(10))),
                    Calibration{1, 0.001, 0.9, rng.below(2) * 0.5}};
    problem.constants.sync_efficiency = rng.below(2) == 0 ? 1 : 0.7;
    for (Gpu& gpu : problem.topology.edit().gpus) gpu.memory = Bytes(1e15);
    set_prices(rng, problem.topology.edit());
    set_training(rng, problem.job);
    const int tensor = problem.topology->size() > 1 && rng.below(3) == 0 ? 2 : 1;
    Plan plan = arbitrary_plan(rng, problem, tensor, seed % 2 == 0);
    if (rng.below(2) == 0) split_virtual_stages(rng, plan);
    const ExecutionConfig& how = problem.job.execution;
    CAPTURE(seed, tensor, plan.pipelines.size(), depth(plan), how.schedule, how.gradient_sync, how.overlap,
            how.flush.value_or(0), how.chunks.value_or(1));
    const double expected = simulated_usd(problem, plan), usd = egress_usd(problem, plan);
    nonzero_costs += expected > 0;
    // The simulator does not round bytes; sums in a different order differ in their last digits.
    REQUIRE(std::abs(usd - expected) <= 1e-9 * expected);
  }
  CHECK(nonzero_costs > 300);
}

// Two stages on two sites, 5 micro-batches of 100 bytes (fp16 outputs of 100 bytes): 500 bytes in one
// direction at 1e-3 USD per byte, and 500 bytes of gradients back at 1e-4.
TEST_CASE("the sender pays the price of its direction") {
  Problem problem{flat_topology({1, 1}, link_of(0, 1e9), link_of(0, 1e9)), chain_job(2, 1e3, 100), {}};
  auto& rules = std::get<RuleLinks>(problem.topology.edit().links);
  rules.links.push_back(rules.links[1]);
  rules.table(0, 1) = 2;
  rules.links[1].egress = DollarsPerByte(1e-4);
  rules.links[2].egress = DollarsPerByte(1e-3);
  problem.job.training.global_batch = 5;
  CHECK(egress_usd(problem, plan_of(problem.job, 2, 1, 5)) == Approx(5 * 100 * (1e-3 + 1e-4)));
  // One replica per site, synchronized by two parameter servers: each sends half of its gradients and then
  // the half that it has summed, 2 layers × 1e3 parameters × 2 bytes in total.
  problem.job.execution.gradient_sync = GradientSync::sharded_ps;
  const double gradients = IterationModel(problem).stages.gradient_bytes({0, 2}, true);
  CHECK(egress_usd(problem, plan_of(problem.job, 1, 2, 2)) == Approx(gradients * (1e-3 + 1e-4)));
}
