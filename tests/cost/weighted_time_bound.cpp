// Compares a bound on seconds × weight with estimates and simulations of random plans, and with a closed
// formula.
#include "planner/cost/bounds/weighted_time_bound.hpp"

#include "simulator/graph/graph_replay.hpp"
#include "simulator/iteration/iteration_graph.hpp"
#include "tests/support/arbitrary_plan.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::cost;
using namespace dtfm::sim;

TEST_CASE("no plan is estimated or simulated to cost less than the bound") {
  double closest = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    Rng rng = Rng::for_task(seed, 3);
    Problem problem{random_topology(rng, 1 + static_cast<int>(rng.below(9)), rng.below(2) == 0),
                    random_chain_job(rng, 2 + static_cast<int>(rng.below(10))),
                    Calibration{1, 0.001, 0.9, rng.below(2) * 0.5}};
    problem.constants.micro_batch_overhead_s = rng.below(2) * 0.01;
    set_training(rng, problem.job);
    set_planned_schedule(seed, problem.job);
    const int tensor = problem.topology->size() > 1 && rng.below(4) == 0 ? 2 : 1;
    const bool any_degree = tensor == 2 && seed % 2 == 0;
    const Plan plan = arbitrary_plan(rng, problem, tensor, any_degree);
    std::vector<double> weight;  // prices; some are practically zero
    for (int device = 0; device < problem.topology->size(); ++device)
      weight.push_back(rng.below(8) == 0 ? 1e-6 : random_size(rng, 0.1, 10));
    double used = 0;
    for (const int device : pipeline_major(plan)) used += weight[at(device)];
    const IterationModel model(problem, any_degree ? std::vector{1, 2} : std::vector{tensor},
                               std::make_shared<const NetworkCost>(problem.topology, problem.constants));
    const double bound = min_weighted_time(model, weight, 1);
    const double estimated = used * estimate_iteration(model, plan).iteration_s;
    const double simulated = used * replay(iteration_graph(problem, plan).graph).makespan;
    CAPTURE(seed, tensor, any_degree, plan.pipelines.size(), depth(plan), problem.job.execution.schedule);
    REQUIRE(bound > 0);
    REQUIRE(bound <= estimated);
    REQUIRE(bound <= simulated);
    REQUIRE(min_weighted_time(model, weight, static_cast<int>(pipeline_major(plan).size())) <= simulated);
    closest = std::max(closest, bound / simulated);
    for (const Pipeline& pipeline : plan.pipelines)
      for (const Stage& stage : pipeline.stages)
        for (const int device : stage.devices)
          if (pipeline.micro_batches > 0 && stage.layers.first < stage.layers.second)
            REQUIRE(min_compute_s(model, device) * used <= simulated);
  }
  CHECK(closest > 0.99);  // plans on one device come close
}

// 5 micro-batches of 4 layers of 3 s and an overhead of 0.5 s, on the device at 2 per second or on the one of
// half the speed at 0.8: 5 · 4 · 6 · 0.8 + 0.5 · 0.8 against 5 · 4 · 3 · 2 + 0.5 · 2.
TEST_CASE("on one device the bound is the cost and depends on the price per unit of work") {
  Problem problem{flat_topology({2}, link_of(0, 1e9), link_of(0, 1e9)), chain_job(4, 1e6, 1e3),
                  Calibration{1, 0, 1, 0.5}};
  problem.topology.edit().devices[1].speed = 0.5;
  problem.job.training.global_batch = 5;
  const IterationModel model(problem);
  CHECK(min_weighted_time(model, {2, 0.8}, 1) == Approx(5 * 4 * 6 * 0.8 + 0.5 * 0.8));
  const double without = std::numeric_limits<double>::infinity();
  CHECK(min_weighted_time(model, {2, without}, 1) == Approx(5 * 4 * 3 * 2 + 0.5 * 2));
  // With two devices, both cost during the overhead.
  CHECK(min_weighted_time(model, {2, 0.8}, 2) == Approx(5 * 4 * 6 * 0.8 + 0.5 * 2.8));
}
