// Estimates, bounds and memory of sharded optimizers, compared with the simulator and by hand.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/cost/bounds/iteration_bound.hpp"
#include "planner/cost/bounds/plan_bound.hpp"
#include "simulator/model/stage_load.hpp"
#include "tests/support/arbitrary_plan.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/iteration_seconds.hpp"
#include "tests/support/repetitions.hpp"
#include "tests/validation/estimates.hpp"

using namespace dtfm;
using namespace dtfm::cost;

namespace {

constexpr OptimizerSharding shardings[] = {OptimizerSharding::zero1, OptimizerSharding::zero2,
                                           OptimizerSharding::zero3};

/// A random job on up to nine random devices.
Problem random_sharded_problem(Rng& rng, OptimizerSharding sharding, bool shared) {
  Problem problem{random_topology(rng, 2 + static_cast<int>(rng.below(8)), shared),
                  random_chain_job(rng, 2 + static_cast<int>(rng.below(10))),
                  Calibration{1, 0.001, 0.9, rng.below(2) * 0.5}};
  problem.constants.micro_batch_overhead_s = rng.below(2) * 0.01;
  set_training(rng, problem.job);
  problem.job.execution.optimizer_sharding = sharding;
  problem.job.execution.gradient_sync = rng.below(2) == 0 ? GradientSync::ring : GradientSync::sharded_ps;
  if (rng.below(2) == 0) problem.job.training.optimizer = Optimizer::adam_18;
  if (sharding == OptimizerSharding::zero1 && !traits(problem.job.execution.schedule).has_chunks) {
    const auto by_site = rng.below(3);
    if (by_site == 0) problem.job.execution.gradient_sync = GradientSync::hierarchical;
    if (by_site == 1) problem.job.execution.gradient_sync = GradientSync::hierarchical_ring;
  }
  if (traits(sharding).gradients && traits(problem.job.execution.schedule).has_chunks) {
    problem.job.execution.schedule = Schedule::one_f_one_b;
    problem.job.execution.chunks.reset();
  }
  return problem;
}

/// A pipeline of one stage on each of some devices in any order. Some may have no micro-batches.
Plan random_flat_plan(Rng& rng, Problem& problem) {
  std::vector<int> order(at(problem.topology->size()));
  std::iota(order.begin(), order.end(), 0);
  rng.shuffle(std::span<int>(order));
  order.resize(1 + rng.below(static_cast<std::uint32_t>(order.size())));
  Plan plan{1, problem.job.execution, {}};
  int all = 0;
  for (const int device : order) {
    plan.pipelines.push_back({static_cast<int>((all == 0 ? 1 : 0) + rng.below(8)),
                              {{{0, layer_count(problem.job.model)}, {device}}}});
    all += plan.pipelines.back().micro_batches;
  }
  problem.job.training.global_batch = all * problem.job.execution.micro_batch;
  return plan;
}

Plan random_sharded_plan(Rng& rng, Problem& problem) {
  return traits(problem.job.execution.optimizer_sharding).gradients ? random_flat_plan(rng, problem)
                                                                    : arbitrary_plan(rng, problem, 1);
}

/// Devices of 1 s forward and 2 s backward per layer of 1e8 bytes, links of 1e8 bytes per second that share
/// nothing, and an optimizer step of 1 s per layer.
Problem regular_problem(int devices, int layers, OptimizerSharding sharding, GradientSync sync) {
  Problem problem{flat_topology({devices}, link_of(0, 1e8), link_of(0, 1e8)), chain_job(layers, 5e7, 1e6),
                  Calibration{1, 0, 1, 0},
                  uniform_roofline({.memory_forward = 0, .memory_backward = 0, .memory_head = 0})};
  problem.topology.edit().gpus.front().memory_bandwidth = BitsPerSecond(8 * 8e8);
  problem.job.execution.gradient_sync = sync;
  problem.job.execution.optimizer_sharding = sharding;
  return problem;
}

double regular_s(const Problem& problem, int stages, int micro_batches = 1) {
  return estimated_iteration_s(
      problem, plan_of(problem.job, stages, problem.topology->size() / stages, micro_batches));
}

/// Errors of estimates against the simulator, and how well they rank the plans.
struct Comparison {
  std::vector<std::pair<double, double>> seconds;  // estimated, simulated
  double sum = 0, low = 0, high = 0;

  void add(const Problem& problem, const Plan& plan) {
    const double estimated = estimated_iteration_s(problem, plan),
                 simulated = simulated_iteration_s(problem, plan), error = estimated / simulated - 1;
    seconds.emplace_back(estimated, simulated);
    sum += std::abs(error);
    low = std::min(low, error);
    high = std::max(high, error);
  }
  double mean() const { return sum / static_cast<double>(seconds.size()); }
  double tau() const { return kendall_tau(seconds); }
};

}  // namespace

// The derivations are in tests/simulator/optimizer_sharding.cpp.
TEST_CASE("zero1 takes the halves of the synchronization and a part of the optimizer step") {
  constexpr OptimizerSharding zero1 = OptimizerSharding::zero1;
  CHECK(regular_s(regular_problem(2, 2, zero1, GradientSync::ring), 1) == Approx(9));
  CHECK(regular_s(regular_problem(2, 2, zero1, GradientSync::sharded_ps), 1) == Approx(9));
  CHECK(regular_s(regular_problem(3, 2, zero1, GradientSync::ring), 1) == Approx(6 + 10.0 / 3));
  CHECK(regular_s(regular_problem(3, 2, zero1, GradientSync::sharded_ps), 1) == Approx(6 + 2));
  for (const GradientSync sync : {GradientSync::ring, GradientSync::sharded_ps})
    CHECK(regular_s(regular_problem(4, 2, zero1, sync), 2) == Approx(6.02 + 1.5));
  CHECK(regular_s(regular_problem(6, 2, zero1, GradientSync::ring), 2) == Approx(6.02 + 5.0 / 3));
  Problem of_deepspeed = regular_problem(2, 2, zero1, GradientSync::ring);  // all-reduces instead of halves
  of_deepspeed.job.execution.messaging = Messaging::deepspeed;
  CHECK(regular_s(of_deepspeed, 1) == Approx(10));
  CHECK(regular_s(regular_problem(6, 2, zero1, GradientSync::sharded_ps), 2) == Approx(6.02 + 1));
}

TEST_CASE("the estimate of zero1 with hierarchical synchronization equals the simulated time") {
  constexpr GradientSync direct = GradientSync::hierarchical, rings = GradientSync::hierarchical_ring;
  for (const auto& [sync, sites, expected_s] :
       {std::tuple(direct, std::vector{2, 2}, 11.0), std::tuple(direct, std::vector{3, 1}, 16.0),
        std::tuple(rings, std::vector{2, 2}, 11.0), std::tuple(rings, std::vector{3, 1}, 14.0),
        std::tuple(rings, std::vector{4, 2}, 6 + 1 + 8.0 / 3 + 1 + 1)}) {
    CAPTURE(sync, sites);
    Problem problem =
        regular_problem(std::accumulate(sites.begin(), sites.end(), 0), 2, OptimizerSharding::zero1, sync);
    const Gpu gpu = problem.topology->gpus.front();
    problem.topology = flat_topology(sites, link_of(0, 1e8), link_of(0, 5e7));
    problem.topology.edit().gpus.front() = gpu;
    CHECK(regular_s(problem, 1) == Approx(expected_s));
  }
}

// tests/simulator/zero_graph.cpp, and an optimizer step of half of 2 s.
TEST_CASE("zero2 and zero3 hide collectives behind computations") {
  const Problem zero2 = regular_problem(2, 2, OptimizerSharding::zero2, GradientSync::ring),
                zero3 = regular_problem(2, 2, OptimizerSharding::zero3, GradientSync::ring);
  CHECK(regular_s(zero2, 1) == Approx(7.5 + 1));
  CHECK(regular_s(zero2, 1, 2) == Approx(13.5 + 1));
  CHECK(regular_s(zero2, 1, 100) == Approx(7.5 + 99 * 6 + 1));
  CHECK(regular_s(zero3, 1) == Approx(7 + 1));
  CHECK(regular_s(zero3, 1, 100) == Approx(7 + 99 * 6 + 1));
}

TEST_CASE("parts of a sharded iteration add up") {
  for (const OptimizerSharding sharding : shardings) {
    const Problem problem = regular_problem(3, 2, sharding, GradientSync::ring);
    const IterationEstimate it = estimate_iteration(IterationModel(problem), plan_of(problem.job, 1, 3, 2));
    CHECK(it.update_s == Approx(2.0 / 3));
    CHECK(std::max(it.pipelines_s, it.gradient_sync_end_s) + it.update_s + it.overhead_s ==
          Approx(it.iteration_s));
  }
}

TEST_CASE("a sharded stage needs as much memory as in the simulator") {
  for (const OptimizerSharding sharding : shardings)
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      CAPTURE(sharding, seed);
      Rng rng = Rng::for_task(41, seed);
      Problem problem = random_sharded_problem(rng, sharding, false);
      if (seed % 3 == 0) tie_last_layer(problem.job);
      const Plan plan = random_sharded_plan(rng, problem);
      const LoadModel model(problem, plan);
      const StageCosts costs(problem, 1);
      for (const Stage& stage : plan.pipelines.front().stages) {
        const StageLoad load = model.of(stage);
        const StageNeeds needs = costs.needs(stage.layers, sharing_replicas(problem.topology, plan));
        CHECK(needs.state == Approx(load.state_bytes).epsilon(1e-12));
        CHECK(needs.working == Approx(load.working_bytes).epsilon(1e-12));
      }
    }
}

TEST_CASE("partitioned gradients leave one micro-batch in flight under any schedule") {
  for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b}) {
    Problem problem = regular_problem(2, 2, OptimizerSharding::zero2, GradientSync::ring);
    problem.job.execution.schedule = schedule;
    const Plan plan = plan_of(problem.job, 1, 2, 5);
    const StageNeeds needs = StageCosts(problem, 1).needs({0, 2}, 2);
    CHECK(device_memory(IterationModel(problem), plan).front().needed ==
          Approx(needs.state + needs.per_micro_batch + needs.working));
  }
}

TEST_CASE("memory shrinks with the number of pipelines, and the estimator notices") {
  const Problem problem = regular_problem(4, 2, OptimizerSharding::zero1, GradientSync::ring);
  const IterationModel model(problem);
  IterationEstimator estimator(model);
  Plan plan = plan_of(problem.job, 1, 2, 1);
  const double with_two = estimator.estimate(plan).iteration_s;
  plan = plan_of(problem.job, 1, 4, 1);
  CHECK(estimator.estimate(plan).iteration_s == estimate_iteration(model, plan).iteration_s);
  CHECK(estimator.estimate(plan).iteration_s != with_two);
  CHECK(device_memory(model, plan).front().needed <
        device_memory(model, plan_of(problem.job, 1, 2, 1)).front().needed);
}

// Bounds that prune a plan hold on the way to its estimate.
TEST_CASE("estimates of sharded optimizers are pruned only if they exceed the limit") {
  for (const OptimizerSharding sharding : shardings)
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
      CAPTURE(sharding, seed);
      Rng rng = Rng::for_task(43, seed);
      Problem problem = random_sharded_problem(rng, sharding, seed % 2 == 0);
      const Plan plan = random_sharded_plan(rng, problem);
      const IterationModel model(problem);
      IterationEstimator estimator(model);
      const IterationEstimate fresh = estimate_iteration(model, plan);
      bool all_hold = true;
      const IterationEstimate* estimate =
          estimator.estimate_or_prune(plan, [&](const EstimateBounds& bounds) {
            all_hold = all_hold && bounds.iteration_s <= fresh.iteration_s * (1 + 1e-12) &&
                       bounds.mean_end_s <= fresh.mean_end_s * (1 + 1e-12) &&
                       bounds.egress_usd <= fresh.egress_usd * (1 + 1e-12) &&
                       bounds.deficit_bytes == fresh.deficit_bytes;
            return false;
          });
      REQUIRE(estimate != nullptr);
      CHECK(all_hold);
      CHECK(estimate->iteration_s == fresh.iteration_s);
    }
}

// The estimate lets all devices take part in a collective at the time of the last one, which is late where
// zero3 waits for the network most of the time.
TEST_CASE("estimates of sharded optimizers rank random plans as the simulator does") {
  struct Limits {
    OptimizerSharding sharding;
    bool shared;
    double mean, low, high;
  };
  for (const Limits& it : {Limits{OptimizerSharding::zero1, false, 0.003, -0.04, 0.15},
                           Limits{OptimizerSharding::zero1, true, 0.01, -0.06, 0.3},
                           Limits{OptimizerSharding::zero2, false, 0.003, -0.03, 0.15},
                           Limits{OptimizerSharding::zero2, true, 0.01, -0.03, 0.3},
                           Limits{OptimizerSharding::zero3, false, 0.02, -0.05, 0.4},
                           Limits{OptimizerSharding::zero3, true, 0.06, -0.35, 0.65}}) {
    Comparison comparison;
    for (std::uint64_t seed = 0; seed < repetitions(200); ++seed) {
      Rng rng = Rng::for_task(it.shared ? 45 : 44, seed);
      Problem problem = random_sharded_problem(rng, it.sharding, it.shared);
      const Plan plan = random_sharded_plan(rng, problem);
      comparison.add(problem, plan);
    }
    CAPTURE(it.sharding, it.shared, comparison.mean(), comparison.low, comparison.high, comparison.tau());
    CHECK(comparison.tau() >= 0.95);
    CHECK(comparison.mean() <= it.mean);
    CHECK(comparison.low >= it.low);
    CHECK(comparison.high <= it.high);
  }
}

TEST_CASE("no sharded plan is below its bounds") {
  for (const OptimizerSharding sharding : shardings)
    for (const bool shared : {false, true}) {
      int fitting = 0;
      for (std::uint64_t seed = 0; seed < repetitions(300); ++seed) {
        CAPTURE(sharding, shared, seed);
        Rng rng = Rng::for_task(shared ? 47 : 46, seed);
        Problem problem = random_sharded_problem(rng, sharding, shared);
        const Plan plan = random_sharded_plan(rng, problem);
        const IterationModel model(problem);
        const double simulated = simulated_iteration_s(problem, plan);
        std::vector<PipelineBound> bounds;
        std::vector<const PipelineBound*> pointers;
        for (const Pipeline& pipeline : plan.pipelines) bounds.push_back(pipeline_bound(model, pipeline));
        for (const PipelineBound& it : bounds) pointers.push_back(&it);
        REQUIRE(min_iteration_s(model, plan, pointers) <= simulated * (1 + 1e-9));
        const auto by_micro_batches = [](const Pipeline& a, const Pipeline& b) {
          return a.micro_batches < b.micro_batches;
        };
        const int most =
            std::max_element(plan.pipelines.begin(), plan.pipelines.end(), by_micro_batches)->micro_batches;
        REQUIRE(max_micro_batches(model, plan, simulated * (1 + 1e-9)) >= most);
        const IterationEstimate estimate = estimate_iteration(model, plan);
        if (estimate.deficit_bytes > 0) continue;
        ++fitting;
        const BoundInputs all = bound_inputs(model);
        const IterationBound bound = iteration_bound(all),
                             of_shape =
                                 iteration_bound(all, {static_cast<int>(plan.pipelines[0].stages.size()),
                                                       static_cast<int>(plan.pipelines.size())});
        REQUIRE(bound.fits);
        REQUIRE(of_shape.fits);
        REQUIRE(bound.value > 0);
        REQUIRE(bound.value <= simulated);
        REQUIRE(of_shape.value <= simulated);
        REQUIRE(of_shape.value <= estimate.iteration_s);
      }
      CHECK(fitting > 30);
    }
}

// Between two devices, a reduce-scatter or an all-gather of all 2e8 bytes takes 1 s. In 5.5 s, zero2 has time
// for one all-gather and four reduce-scatters. zero3 needs two all-gathers per micro-batch, in 2 s, and its
// reduce-scatter overlaps with them.
TEST_CASE("traffic limits the micro-batches of a sharded plan") {
  constexpr OptimizerSharding zero1 = OptimizerSharding::zero1, zero2 = OptimizerSharding::zero2,
                              zero3 = OptimizerSharding::zero3;
  for (const GradientSync sync : {GradientSync::ring, GradientSync::sharded_ps})
    for (const auto& [sharding, most] :
         {std::pair(zero1, std::numeric_limits<int>::max()), std::pair(zero2, 4), std::pair(zero3, 2)}) {
      CAPTURE(sharding, sync);
      const Problem problem = regular_problem(2, 2, sharding, sync);
      const Plan plan = plan_of(problem.job, 1, 2, 1);
      CHECK(max_micro_batches(IterationModel(problem), plan, 5.5) == most);
    }
}

// Two devices exchange halves of 2e8 bytes of gradients and parameters: 4e8 bytes leave a device at 1e-9 USD.
TEST_CASE("egress of a sharded optimizer is that of its bytes") {
  for (const GradientSync sync : {GradientSync::ring, GradientSync::sharded_ps})
    for (const auto& [sharding, bytes] :
         {std::pair(OptimizerSharding::zero1, 4e8), std::pair(OptimizerSharding::zero2, 4e8),
          std::pair(OptimizerSharding::zero3, 6e8)}) {
      CAPTURE(sharding, sync);
      Problem problem = regular_problem(2, 2, sharding, sync);
      for (Link& link : std::get<RuleLinks>(problem.topology.edit().links).links)
        link.egress = DollarsPerByte(1e-9);
      const Plan plan = plan_of(problem.job, 1, 2, 1);
      CHECK(estimate_iteration(IterationModel(problem), plan).egress_usd == Approx(bytes * 1e-9));
    }
}

TEST_CASE("an estimate rejects a sharding that cannot run") {
  const Problem tree = regular_problem(2, 2, OptimizerSharding::zero1, GradientSync::tree),
                deep = regular_problem(2, 2, OptimizerSharding::zero3, GradientSync::ring);
  CHECK(error_message([&] { regular_s(tree, 1); }) ==
        "zero1 cannot be combined with gradient_sync tree; use ring, sharded-ps or hierarchical");
  CHECK(error_message([&] { regular_s(deep, 2); }) ==
        "zero3 requires that every pipeline is one stage on one device");
}
