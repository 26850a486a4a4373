// Recomputation and offload of as few layers of each stage as its memory requires.
#include <array>
#include <limits>
#include <vector>

#include "core/base/rng.hpp"
#include "planner/cost/bounds/plan_bound.hpp"
#include "planner/cost/explanation/device_reasons.hpp"
#include "planner/cost/iteration_time/fewest_recomputed.hpp"
#include "planner/cost/iteration_time/planned_order.hpp"
#include "simulator/model/stage_load.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/iteration_seconds.hpp"
#include "tests/support/random_problem.hpp"

using namespace dtfm;

namespace {

constexpr std::array schedules = {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved,
                                  Schedule::zero_bubble_h1};

constexpr std::array by_stage = {Recomputation::as_needed, Recomputation::offload};

bool fits(const IterationModel& model, const Plan& plan) {
  for (const DeviceMemory& it : device_memory(model, plan))
    if (it.needed > it.capacity) return false;
  return true;
}

/// Calls `use` with the plan for every choice of the numbers of recomputed layers of its stages.
template <class Use>
void for_each_choice(Plan plan, std::size_t number, const Use& use) {
  const std::size_t stages = plan.pipelines.front().stages.size();
  if (number == plan.pipelines.size() * stages) return use(plan);
  Stage& stage = plan.pipelines[number / stages].stages[number % stages];
  for (int count = 0; count <= stage.layers.second - stage.layers.first; ++count) {
    stage.recompute_layers = count;
    for_each_choice(plan, number + 1, use);
  }
}

/// Layers of 1 s forward and 2 s backward that keep about 1 GB, or an input of `input` bytes.
Job job_with_activations(Rng& rng, int layers, Schedule schedule, double input = 1e6,
                         Recomputation recomputation = Recomputation::as_needed) {
  Job job = chain_job(layers, 0, input);
  for (Layer& layer : std::get<LayerChain>(job.model).layers)
    layer.activation_memory = Bytes(1e9 * (0.8 + 0.4 * rng.uniform()));
  job.execution.schedule = schedule;
  if (schedule == Schedule::interleaved) job.execution.chunks = 2;
  job.execution.recomputation = recomputation;
  return job;
}

/// Every device has a GPU of its own, with memory for any number of layers, and a link to its host on which a
/// layer takes 2 s or less.
Problem problem_with_memories(Rng& rng, const Job& job, int devices) {
  Problem problem{flat_topology({devices}, link_of(0.2, 5e6), link_of(0.2, 5e6)), job, {}};
  Topology& topology = problem.topology.edit();
  const Gpu gpu = topology.gpus.front();
  topology.gpus.clear();
  for (int device = 0; device < devices; ++device) {
    topology.gpus.push_back(gpu);
    topology.gpus.back().memory = Bytes(random_size(rng, 1.1e9, 3e10));
    topology.gpus.back().host_link = BitsPerSecond(8 * 5e8 * (device + 1));
    topology.devices[at(device)].gpu = device;
    topology.devices[at(device)].speed = 0.5 + rng.uniform();
  }
  return problem;
}

}  // namespace

// 8 layers keep 1 GB each and an input of 1 MB. With k recomputed ones, one of which exists as a whole while
// it is computed again, (8 − k + 1) GB and k MB fit in 6.5 GB if k is 3 or more. With two micro-batches in
// flight, 2 (8 − k) + 1 GB and 2 k MB do if k is 6 or more.
TEST_CASE("the fewest recomputed layers are those that make a device fit") {
  Job job = chain_job(8, 0, 1e6);
  for (Layer& layer : std::get<LayerChain>(job.model).layers) layer.activation_memory = Bytes(1e9);
  job.execution.recomputation = Recomputation::as_needed;
  const Problem problem{flat_topology({1}, {}, {}), job, {}};
  const StageCosts costs(problem, 1);
  const auto fewest = [&](std::vector<std::pair<int, int>> chunks, int held, double capacity) {
    return fewest_recomputed(costs, chunks, 1, InFlightMicroBatches(held), capacity);
  };
  CHECK(fewest({{0, 8}}, 1, 6.5e9) == 3);
  CHECK(fewest({{0, 8}}, 2, 6.5e9) == 6);
  CHECK(fewest({{0, 8}}, 1, 8e9) == 0);  // recomputing one layer would need more memory than none
  CHECK(fewest({{0, 8}}, 1, 7.999e9) == 2);
  CHECK(fewest({{0, 8}}, 2, 1e9) == 8);  // never fits
  CHECK(fewest({{0, 0}}, 2, 1e9) == 0);
  CHECK(costs.recomputed({0, 8}) == 8);
  CHECK(costs.min_recomputed({0, 8}) == 0);
}

// A simulator decides about time, device_memory about memory, which another test compares with the simulator.
TEST_CASE("no choice of recomputed or offloaded layers that fits is faster than as many as needed") {
  const Recomputation recomputation = GENERATE(from_range(by_stage));
  CAPTURE(recomputation);
  int differing = 0, infeasible = 0;
  for (const Schedule schedule : schedules) {
    if (recomputation == Recomputation::offload && traits(schedule).splits_backward) continue;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      CAPTURE(schedule, seed);
      Rng rng = Rng::for_task(71, seed);
      const int stages = 2 + static_cast<int>(rng.below(2)), replicas = stages == 2 ? 2 : 1;
      Job job = job_with_activations(rng, 3 * stages, schedule, seed % 3 == 0 ? 4e8 : 1e6, recomputation);
      if (seed % 3 == 0)  // recomputing some of the layers would need more memory
        for (Layer& layer : std::get<LayerChain>(job.model).layers)
          layer.activation_memory = Bytes(random_size(rng, 1e8, 1.2e9));
      Problem problem = problem_with_memories(rng, job, stages * replicas);
      const int micro_batches = stages * (1 + static_cast<int>(rng.below(3)));
      problem.job.training.global_batch = micro_batches * replicas;
      const Plan open = plan_of(problem.job, stages, replicas, micro_batches);
      const IterationModel model(problem);
      double least_s = std::numeric_limits<double>::infinity();
      for_each_choice(open, 0, [&](const Plan& plan) {
        if (fits(model, plan)) least_s = std::min(least_s, simulated_iteration_s(problem, plan));
      });
      const Plan chosen = with_planned_orders(model, open);
      CHECK(estimated_iteration_s(problem, open) == estimated_iteration_s(problem, chosen));
      CHECK(fits(model, chosen) == (least_s < std::numeric_limits<double>::infinity()));
      if (!fits(model, chosen)) {
        ++infeasible;
        continue;
      }
      CHECK(simulated_iteration_s(problem, chosen) == Approx(least_s));
      const std::vector<Stage>& first = chosen.pipelines.front().stages;
      differing += first[0].recompute_layers != first[1].recompute_layers;
    }
  }
  // Activations of offloaded layers stay on the device until they are copied, so fewer plans fit.
  CHECK(differing > (recomputation == Recomputation::offload ? 20 : 100));
  CHECK(infeasible > 5);
  CHECK(infeasible < (recomputation == Recomputation::offload ? 180 : 120));
}

TEST_CASE("without contention the estimate is the simulator's time for any recomputed or offloaded layers") {
  const Recomputation recomputation = GENERATE(from_range(by_stage));
  const bool overlap = GENERATE(false, true);
  CAPTURE(recomputation, overlap);
  for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b})
    for (const OptimizerSharding sharding : {OptimizerSharding::none, OptimizerSharding::zero3}) {
      if (recomputation == Recomputation::offload && sharding == OptimizerSharding::zero3) continue;
      for (std::uint64_t seed = 0; seed < 40; ++seed) {
        CAPTURE(schedule, sharding, seed);
        Rng rng = Rng::for_task(72, seed);
        const int stages = sharding == OptimizerSharding::none ? 3 : 1, replicas = 2;
        Problem problem = problem_with_memories(
            rng, job_with_activations(rng, 9, schedule, 1e6, recomputation), stages * replicas);
        problem.job.execution.overlap = overlap && sharding == OptimizerSharding::none;
        problem.job.execution.optimizer_sharding = sharding;
        problem.job.execution.gradient_sync = GradientSync::ring;
        problem.job.training.global_batch = 8 * replicas;
        Plan plan = plan_of(problem.job, stages, replicas, 8);
        for (Pipeline& pipeline : plan.pipelines)
          for (Stage& stage : pipeline.stages)
            stage.recompute_layers = static_cast<int>(
                rng.below(static_cast<std::uint32_t>(stage.layers.second - stage.layers.first + 1)));
        CHECK(estimated_iteration_s(problem, plan) == Approx(simulated_iteration_s(problem, plan)));
        if (stages == 1) continue;
        const IterationModel model(problem);
        for (const Pipeline& pipeline : plan.pipelines)
          CHECK(pipeline_bound(model, pipeline).end_s <= estimated_iteration_s(problem, plan) * (1 + 1e-9));
      }
    }
}

// Of four layers of 2 s backward, two are offloaded: 1 GB each at 0.2 GB/s takes 5 s. The last layers come
// first and wait for nothing. The first ones have their activations 5 and 10 s after the begin of the pass,
// so that they take 2 s (from 4 to 6) and 4 s. With as-needed, a recomputed layer takes 3 s.
TEST_CASE("layers that do not wait for the host have their gradients as early as without offload") {
  Job job = chain_job(4, 0, 1e6);
  for (Layer& layer : std::get<LayerChain>(job.model).layers) layer.activation_memory = Bytes(1e9);
  Problem problem{flat_topology({1}, {}, {}), job, {}};
  problem.topology.edit().gpus[0].host_link = BitsPerSecond(8 * 0.2e9);
  const auto backward_s = [&](Recomputation recomputation) {
    problem.job.execution.recomputation = recomputation;
    const Stage stage{.layers = {0, 4}, .devices = {0}, .recompute_layers = 2};
    const sim::LoadModel model(problem, {1, problem.job.execution, {{1, {stage}}}});
    std::vector<double> seconds;
    for (int layer = 3; layer >= 0; --layer) seconds.push_back(model.backward_s(stage, layer));
    return seconds;
  };
  CHECK(backward_s(Recomputation::as_needed) == std::vector<double>{2, 2, 3, 3});
  CHECK(backward_s(Recomputation::offload) == std::vector<double>{2, 2, 2, 4});
}

// Two micro-batches of 8 layers of 1 GB are in flight. With k layers offloaded, the device holds 2 (8 − k) GB
// of activations, 2 k MB of inputs and k GB in transfer, so 12.01 GB suffice for k = 4. At 2 GB/s, 4 GB take
// 2 s, less than the passes of 8 and 16 s; at 0.1 GB/s, both passes take 40 s.
TEST_CASE("offloaded layers leave and return during passes, which take at least as long") {
  Job job = chain_job(8, 0, 1e6);
  for (Layer& layer : std::get<LayerChain>(job.model).layers) layer.activation_memory = Bytes(1e9);
  job.execution.recomputation = Recomputation::offload;
  Topology topology = flat_topology({1}, {}, {});
  topology.gpus[0].host_link.reset();
  CHECK(StageCosts({topology, job, {}}, 1).unknown(0) ==
        "the time to offload activations cannot be estimated: GPU " + topology.gpus[0].name +
            " has no `host_link`; add it to the GPU catalogue");
  for (const auto& [gigabytes_per_s, forward_s, backward_s] :
       {std::tuple(2.0, 8.0, 16.0), {0.1, 40.0, 40.0}}) {
    topology.gpus[0].host_link = BitsPerSecond(8e9 * gigabytes_per_s);
    const Problem problem{topology, job, {}};
    const StageCosts costs(problem, 1);
    const std::vector<std::pair<int, int>> chunk = {{0, 8}};
    CHECK(fewest_recomputed(costs, chunk, 1, InFlightMicroBatches(2), 12.01e9) == 4);
    CHECK(fewest_recomputed(costs, chunk, 1, InFlightMicroBatches(2), 11.9e9) == 5);
    CHECK(fewest_recomputed(costs, chunk, 1, InFlightMicroBatches(1), 8e9) == 0);
    const ComputeTime time = costs.compute(0, {0, 8}, 4);
    CHECK(time.forward_s == Approx(forward_s));
    CHECK(time.backward_s == Approx(backward_s));
  }
}

// Passes of 8 and 16 s take 40 s each at 0.1 GB/s if four of eight layers of 1 GB are offloaded: two
// micro-batches wait 2 (32 + 24) s. At 2 GB/s they do not wait.
TEST_CASE("explanations say for how long passes wait for the host link") {
  Job job = chain_job(8, 0, 1e6);
  for (Layer& layer : std::get<LayerChain>(job.model).layers) layer.activation_memory = Bytes(1e9);
  job.execution.recomputation = Recomputation::offload;
  job.training.global_batch = 2;
  Topology topology = flat_topology({1}, {}, {});
  const Plan plan{1, job.execution, {{2, {{.layers = {0, 8}, .devices = {0}, .recompute_layers = 4}}}}};
  for (const auto& [gigabytes_per_s, wait_s] : {std::pair(0.1, 112.0), {2.0, 0.0}}) {
    topology.gpus[0].host_link = BitsPerSecond(8e9 * gigabytes_per_s);
    const Problem problem{topology, job, {}};
    CHECK(device_reasons(IterationModel(problem), plan, {}).stages.at(0).host_wait_s == Approx(wait_s));
  }
}

TEST_CASE("in uniform plans a stage recomputes as many layers as any of its replicas needs") {
  Rng rng = Rng::for_task(73, 0);
  Problem problem = problem_with_memories(rng, job_with_activations(rng, 6, Schedule::one_f_one_b), 4);
  for (const auto& [device, gigabytes] : {std::pair(0, 3.5), {1, 40.0}, {2, 40.0}, {3, 2.5}})
    problem.topology.edit().gpus[at(device)].memory = Bytes(gigabytes * 1e9);
  problem.job.training.global_batch = 8;
  const Plan open = plan_of(problem.job, 2, 2, 4);
  const auto counts = [&] {
    std::vector<int> result;
    for (const Pipeline& pipeline : with_planned_orders(IterationModel(problem), open).pipelines)
      for (const Stage& stage : pipeline.stages) result.push_back(stage.recompute_layers.value());
    return result;
  };
  const std::vector<int> own = counts();
  CHECK(own[0] > 0);
  CHECK(own[1] == 0);
  CHECK(own[2] == 0);
  CHECK(own[3] > 0);
  problem.job.parallelism.uniform_pipelines = true;
  CHECK(counts() == std::vector{own[0], own[3], own[0], own[3]});
}
