// Compares bounds with estimates and simulations of random plans, and with closed formulas.
#include "planner/cost/bounds/iteration_bound.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "core/io/readers/calibration_reader.hpp"
#include "core/io/readers/roofline_reader.hpp"
#include "core/io/readers/topology_reader.hpp"
#include "planner/cost/iteration_time/planned_order.hpp"
#include "simulator/graph/graph_replay.hpp"
#include "simulator/iteration/iteration_graph.hpp"
#include "tests/support/arbitrary_plan.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/published_job.hpp"
#include "tests/support/small_problems.hpp"
#include "tests/support/tiny_problems.hpp"
#include "tests/validation/estimates.hpp"

using namespace dtfm;
using namespace dtfm::cost;
using namespace dtfm::io;
using namespace dtfm::sim;

namespace {

int stages_of(const Plan& plan) {
  return static_cast<int>(plan.pipelines.front().stages.size());
}

int replicas_of(const Plan& plan) {
  return static_cast<int>(plan.pipelines.size());
}

/// Different numbers in different stages.
void set_recompute_layers(int seed, Plan& plan) {
  for (Pipeline& pipeline : plan.pipelines)
    for (Stage& stage : pipeline.stages)
      stage.recompute_layers = ++seed % (stage.layers.second - stage.layers.first + 1);
}

void check_random_plans(std::uint64_t seeds, bool shared) {
  std::uint64_t fitting = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    Rng rng = Rng::for_task(seed, shared ? 1 : 0);
    Problem problem{random_topology(rng, 1 + static_cast<int>(rng.below(9)), shared),
                    random_chain_job(rng, 2 + static_cast<int>(rng.below(10))),
                    Calibration{1, 0.001, 0.9, rng.below(2) * 0.5}};
    set_training(rng, problem.job);
    set_planned_schedule(seed, problem.job);
    problem.job.parallelism.sequence_parallel = seed % 3 > 0;
    problem.job.parallelism.scatter_gather = seed % 6 == 0;
    if (problem.job.execution.recomputation == Recomputation::full && seed % 2 == 0)
      problem.job.execution.recompute_layers = static_cast<int>(seed % 5);
    if (problem.job.execution.recomputation == Recomputation::full && seed % 4 == 1)
      problem.job.execution.recomputation = seed % 8 == 1 ? Recomputation::as_needed : Recomputation::offload;
    const int tensor = problem.topology->size() > 1 && rng.below(4) == 0 ? 2 : 1;
    const bool any_degree = tensor == 2 && seed % 2 == 0;
    Plan plan = arbitrary_plan(rng, problem, tensor, any_degree);
    if (rng.below(2) == 0) split_virtual_stages(rng, plan);
    if (seed % 8 == 1) set_recompute_layers(static_cast<int>(seed), plan);
    const ExecutionConfig& how = problem.job.execution;
    CAPTURE(seed, shared, tensor, any_degree, stages_of(plan), replicas_of(plan), how.schedule,
            how.gradient_sync, how.overlap, how.flush.value_or(0), how.chunks.value_or(1));
    const IterationModel model(problem, any_degree ? std::vector{1, 2} : std::vector{tensor},
                               std::make_shared<const NetworkCost>(problem.topology, problem.constants));
    const BoundInputs bounds = bound_inputs(model);
    if (seed % 8 < 4) plan = with_planned_orders(model, std::move(plan));
    const IterationEstimate estimate = estimate_iteration(model, plan);
    if (estimate.deficit_bytes > 0) continue;
    ++fitting;
    const double simulated = replay(iteration_graph(problem, plan).graph).makespan;
    const IterationBound of_shape = iteration_bound(bounds, {stages_of(plan), replicas_of(plan)});
    REQUIRE(of_shape.fits);
    REQUIRE(of_shape.value > 0);
    REQUIRE(of_shape.value <= estimate.iteration_s);
    REQUIRE(of_shape.value <= simulated);
    REQUIRE(min_stages(bounds) <= stages_of(plan));
    const double of_all = iteration_bound(bounds).value;
    const IterationBound of_depth = iteration_bound(bounds, {stages_of(plan), {}});
    REQUIRE(iteration_bound(bounds).fits);
    REQUIRE(of_depth.fits);
    REQUIRE(of_depth.value <= of_shape.value * (1 + 1e-6));
    REQUIRE(of_all <= of_depth.value * (1 + 1e-6));
  }
  CHECK(fitting > seeds / 4);
}

/// Random pipelines of different depths; at least two devices. Some may have no micro-batches.
Plan uneven_plan(Rng& rng, Problem& problem) {
  const int devices = problem.topology->size(), layers = layer_count(problem.job.model);
  std::vector<int> order(at(devices));
  std::iota(order.begin(), order.end(), 0);
  rng.shuffle(std::span<int>(order));
  Plan plan{1, problem.job.execution, {}};
  int used = 0, all = 0;
  while (used < devices && (plan.pipelines.empty() || rng.below(4) > 0)) {
    const int stages =
        1 + static_cast<int>(rng.below(static_cast<std::uint32_t>(std::min(devices - used, layers))));
    Pipeline pipeline{1 + static_cast<int>(rng.below(10)), {}};
    if (!plan.pipelines.empty() && rng.below(10) == 0) pipeline.micro_batches = 0;
    all += pipeline.micro_batches;
    for (const auto& range : random_split(rng, layers, stages, 1))
      pipeline.stages.push_back({range, {order[at(used++)]}});
    plan.pipelines.push_back(std::move(pipeline));
  }
  problem.job.training.global_batch = all * problem.job.execution.micro_batch;
  return plan;
}

/// Puts devices on the host of the one before, if both are at one site. The links of the site do not change.
void join_hosts(Rng& rng, Topology& topology) {
  auto& rules = std::get<RuleLinks>(topology.links);
  rules.same_host = rules.table;
  for (int i = 1; i < topology.size(); ++i) {
    Device& device = topology.devices[at(i)];
    const Device& before = topology.devices[at(i - 1)];
    if (device.site == before.site && rng.below(2) == 0) device.host = before.host;
  }
}

/// Without memory limits, so that every plan counts.
Problem uneven_problem(Rng& rng, bool shared) {
  Problem problem{random_topology(rng, 2 + static_cast<int>(rng.below(9)), shared),
                  random_chain_job(rng, 2 + static_cast<int>(rng.below(10))),
                  Calibration{1, 0.001, 0.9, rng.below(2) * 0.5}};
  for (Gpu& gpu : problem.topology.edit().gpus) gpu.memory = Bytes(1e15);
  if (rng.below(2) == 0) join_hosts(rng, problem.topology.edit());
  const Schedule schedules[] = {Schedule::gpipe,
                                Schedule::one_f_one_b,
                                Schedule::zero_bubble_h1,
                                Schedule::one_f_one_b_blocking,
                                Schedule::eager_one_f_one_b,
                                Schedule::zero_bubble_greedy};
  set_training(rng, problem.job, schedules[rng.below(std::size(schedules))]);
  if (problem.job.execution.schedule == Schedule::one_f_one_b && rng.below(2) == 0)
    problem.job.execution.messaging = Messaging::deepspeed;
  return problem;
}

}  // namespace

TEST_CASE("no plan with pipelines of different depths is simulated below the bound") {
  for (const bool shared : {false, true})
    for (std::uint64_t seed = 0; seed < 1500; ++seed) {
      Rng rng = Rng::for_task(seed, shared ? 4 : 3);
      Problem problem = uneven_problem(rng, shared);
      Plan plan = uneven_plan(rng, problem);
      const ExecutionConfig& how = problem.job.execution;
      CAPTURE(seed, shared, how.schedule, how.gradient_sync, how.overlap, how.flush.value_or(0));
      const IterationModel model(problem);
      const IterationBound bound = iteration_bound(bound_inputs(model));
      if (seed % 2 == 0) plan = with_planned_orders(model, std::move(plan));
      const double simulated = replay(iteration_graph(problem, plan).graph).makespan;
      REQUIRE(bound.fits);
      REQUIRE(bound.value > 0);
      REQUIRE(bound.value <= simulated);
      if (!shared) REQUIRE(bound.value <= estimate_iteration(model, plan).iteration_s);
    }
}

TEST_CASE("the best of all plans of tiny problems is not below the bound") {
  for (int number = 0; number < 8; ++number) {
    CAPTURE(number);
    const Problem problem = tiny_problem(number);
    const IterationModel model(problem);
    CHECK(iteration_bound(bound_inputs(model)).value <= tiny_optimum(problem).seconds);
  }
}

// Two sites with slow links between them, and sharded parameter servers, so that the bound distinguishes
// pipelines inside a site from those across.
TEST_CASE("the best of all plans on two sites is not below the bound") {
  for (const int number : {2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23}) {
    CAPTURE(number);
    Problem problem = tiny_problem(number, {4, 5, 4, 5, 4, 6});
    REQUIRE(problem.job.execution.gradient_sync == GradientSync::sharded_ps);
    Topology& topology = problem.topology.edit();
    topology.sites.push_back({"there"});
    auto& links = std::get<MeasuredLinks>(topology.links);
    for (int from = 0; from < topology.size(); ++from) {
      topology.devices[at(from)].site = from % 2;
      for (int to = 0; to < topology.size(); ++to)
        if ((from - to) % 2 == 0)
          links.latency(from, to) *= 0.1;
        else
          links.bandwidth(from, to) *= number % 4 == 2 ? 0.1 : 0.03;
    }
    const IterationModel model(problem);
    CHECK(iteration_bound(bound_inputs(model)).value <= tiny_optimum(problem).seconds);
  }
}

// Two sites of two devices; two layers of 1 s forward and 2 s backward; eight micro-batches; two pipelines of
// two stages. Activations and the gradients of a layer have 1 GB, and all messages of a device to the other
// site share 1 GB/s.
// Pipelines inside their sites: 6 s for the first micro-batch and 3 s for three others each. Then each device
// exchanges half of 1 GB twice with the other site: 15 + 1 s. A pipeline across sites has two more seconds
// for the first micro-batch: with four micro-batches it takes 17 s, and with three the other one has five.
TEST_CASE("gradients or activations have to cross between sites") {
  Link between = link_of(0, 1e9);
  between.shared_by_sender = true;
  Problem problem{flat_topology({2, 2}, link_of(0, 1e15), between), chain_job(2, 2.5e8, 1e9), {}};
  problem.topology.edit().gpus[0].memory = Bytes(1e15);
  problem.job.training.global_batch = 8;
  problem.job.training.precision = Precision::fp32;
  problem.job.execution.schedule = Schedule::gpipe;
  problem.job.execution.gradient_sync = GradientSync::sharded_ps;
  const IterationModel model(problem);
  const IterationBound bound = iteration_bound(bound_inputs(model), {2, 2});
  CHECK(bound.value == Approx(16).epsilon(1e-5));
  CHECK(bound.winner == "groups of devices");
  const double simulated = replay(iteration_graph(problem, plan_of(problem.job, 2, 2, 4)).graph).makespan;
  CHECK(simulated == Approx(16).epsilon(1e-5));
}

TEST_CASE("faster links and devices do not raise the bound") {
  for (const bool shared : {false, true})
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      Rng rng = Rng::for_task(seed, shared ? 6 : 5);
      Problem problem = uneven_problem(rng, shared);
      // A link above the threshold is not compressed, so a faster link may carry more bytes.
      problem.job.execution.compression.bandwidth_threshold.reset();
      CAPTURE(seed, shared);
      const auto bound = [&] {
        const IterationModel model(problem);
        return iteration_bound(bound_inputs(model)).value;
      };
      const double before = bound();
      auto& links = std::get<RuleLinks>(problem.topology.edit().links).links;
      Link& link = links[rng.below(static_cast<std::uint32_t>(links.size()))];
      link.bandwidth = link.bandwidth * (1 + 3 * rng.uniform());
      link.latency = link.latency * rng.uniform();
      const double faster = bound();
      CHECK(faster <= before * (1 + 1e-6));
      for (Device& device : problem.topology.edit().devices) device.speed *= 1 + rng.uniform();
      CHECK(bound() <= faster * (1 + 1e-6));
    }
}

// Two devices, one layer of 1 s forward and 2 s backward, four micro-batches, and 1 GB of gradients at
// 1 GB/s. One pipeline: 4 · 3 s. Two: 2 · 3 s, then each sends and receives half of the gradients twice, 1 s.
TEST_CASE("the bound of two replicas includes gradient synchronization") {
  Problem problem{flat_topology({2}, link_of(0, 1e9), link_of(0, 1e9)), chain_job(1, 2.5e8, 1e3), {}};
  problem.job.training.global_batch = 4;
  problem.job.training.precision = Precision::fp32;
  const IterationModel model(problem);
  const BoundInputs bounds = bound_inputs(model);
  CHECK(iteration_bound(bounds, {{}, 1}).value == Approx(12).epsilon(1e-5));
  CHECK(iteration_bound(bounds, {{}, 2}).value == Approx(7).epsilon(1e-5));
  CHECK(iteration_bound(bounds).value == Approx(7).epsilon(1e-5));
}

// Two pipelines of two stages, four layers of 1 s forward and 2 s backward, four micro-batches each. Messages
// of activations take no time, and the gradients of a layer 1 s, over the one link of a device. With two
// layers per stage, the second one waits for 2 s and computes for 4 · 6 s. The first one ends 4 s later, and
// then synchronizes two layers for 2 s: 32 s. With one layer in the first stage, the second one alone takes
// 1 + 4 · 9 s.
TEST_CASE("the first stage synchronizes all of its layers after the last gradients have returned to it") {
  Link link = link_of(0, 1e9);
  link.shared_by_sender = true;
  Problem problem{flat_topology({4}, link, link), chain_job(4, 2.5e8, 0), {}};
  problem.topology.edit().gpus[0].memory = Bytes(1e15);
  problem.job.training.global_batch = 8;
  problem.job.training.precision = Precision::fp32;
  problem.job.execution.gradient_sync = GradientSync::sharded_ps;
  for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::eager_one_f_one_b}) {
    CAPTURE(schedule);
    problem.job.execution.schedule = schedule;
    const IterationModel model(problem);
    CHECK(iteration_bound(bound_inputs(model), {2, 2}).value == Approx(32).epsilon(1e-5));
    const double simulated = replay(iteration_graph(problem, plan_of(problem.job, 2, 2, 4)).graph).makespan;
    CHECK(simulated == Approx(32).epsilon(1e-5));
  }
}

TEST_CASE("no plan is estimated or simulated below the bound") {
  check_random_plans(3000, false);
}

TEST_CASE("no plan is below the bound if messages share links") {
  check_random_plans(1500, true);
}

TEST_CASE("no random plan is below the bound on the shipped topologies") {
  int fitting = 0;
  for (const char* name :
       {"aws-ten-regions", "datacenter", "four-continents", "multicloud-20", "onprem-cloud", "regional",
        "spot", "spot-10g", "three-clouds", "universities", "worldwide"}) {
    CAPTURE(name);
    Problem problem{read_topology(std::string(DTFM_SOURCE_DIR "/topologies/") + name + ".yaml"),
                    published_job(), shipped_calibration("v100").constants, built_in_roofline()};
    problem.job.training.global_batch = 64;
    const IterationModel model(problem);
    const BoundInputs bounds = bound_inputs(model);
    const double of_all = iteration_bound(bounds).value;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      CAPTURE(seed);
      Rng rng = Rng::for_task(seed, 2);
      const Plan plan = random_plan(problem, rng);
      const IterationEstimate estimate = estimate_iteration(model, plan);
      const double simulated = replay(iteration_graph(problem, plan).graph).makespan;
      REQUIRE(of_all <= simulated);
      if (estimate.deficit_bytes > 0) continue;
      ++fitting;
      const IterationBound bound = iteration_bound(bounds, {stages_of(plan), replicas_of(plan)});
      REQUIRE(bound.fits);
      REQUIRE(bound.value <= estimate.iteration_s);
      REQUIRE(bound.value <= simulated);
    }
  }
  CHECK(fitting > 20);
}

// One device: m · (1 + 2) s for each of 4 layers and 0.25 s of overhead, which is the whole time.
TEST_CASE("on one device the bound is the time") {
  Problem problem{flat_topology({1}, link_of(0, 1e9), link_of(0, 1e9)), chain_job(4, 1e6, 1e3),
                  Calibration{1, 0, 1, 0.25}};
  problem.job.training.global_batch = 5;
  const IterationModel model(problem);
  const IterationBound bound = iteration_bound(bound_inputs(model));
  const double time = estimate_iteration(model, plan_of(problem.job, 1, 1, 5)).iteration_s;
  CHECK(bound.value == Approx(time).epsilon(1e-8));
  CHECK(bound.value >= 5 * 4 * 3 + 0.25 - 1e-6);
}

// gpipe with 6 micro-batches in 4 equal stages of 2 layers, hops with 0.1 s latency and 0.5 s of transfer: 8
// · 3 + 3 · 2 · 0.6 for the first micro-batch, and 5 times 2 · 3.
TEST_CASE("an even gpipe on equal devices and links reaches the bound") {
  Problem problem{flat_topology({4}, link_of(0.1, 1e6), link_of(0.1, 1e6)), chain_job(8, 1e3, 5e5), {}};
  problem.job.training.global_batch = 6;
  problem.job.training.precision = Precision::fp32;
  const IterationModel model(problem);
  const IterationBound bound = iteration_bound(bound_inputs(model), {4, 1});
  CHECK(bound.value == Approx(24 + 3.6 + 5 * 6).epsilon(1e-3));
  CHECK(bound.winner == "pipelines of any depth");
  CHECK(bound.value <= estimate_iteration(model, plan_of(problem.job, 4, 1, 6)).iteration_s);
}

// The first stage computes almost nothing. After its last input gradient the second stage has two delayed
// weight gradients of 1 s left, while the gradients of the first stage are synchronized for 2 s.
TEST_CASE("zb-h1: the first stage may synchronize while the last one computes weight gradients") {
  Problem problem{flat_topology({4}, link_of(0, 1e9), link_of(0, 1e9)), chain_job(2, 1, 0), {}};
  Layer& first = std::get<LayerChain>(problem.job.model).layers.front();
  first.parameters = 1e9;
  first.forward = first.backward = Flops(1);
  problem.job.training.global_batch = 8;
  problem.job.execution.schedule = Schedule::zero_bubble_h1;
  problem.topology.edit().gpus[0].memory = Bytes(1e15);
  const Plan plan = plan_of(problem.job, 2, 2, 4);
  const IterationModel model(problem);
  const IterationBound bound = iteration_bound(bound_inputs(model), {2, 2});
  CHECK(bound.value >= 4 * 3 * (1 - 1e-6));
  CHECK(bound.value <= replay(iteration_graph(problem, plan).graph).makespan);
}

// 4 interleaved micro-batches on 2 devices with 2 chunks each. One layer takes 30 s, the others 3 s: its
// device is busy for at least 4 · 30 s, an equal share of 39 s would be 4 · 19.5 s.
TEST_CASE("interleaved: the device with the largest layer is the slowest") {
  Problem problem{flat_topology({2}, link_of(0, 1e12), link_of(0, 1e12)), chain_job(4, 0, 0), {}};
  Layer& largest = std::get<LayerChain>(problem.job.model).layers[1];
  largest.forward = Flops(10 * largest.forward.value());
  largest.backward = Flops(10 * largest.backward.value());
  problem.job.training.global_batch = 4;
  problem.job.execution.schedule = Schedule::interleaved;
  problem.job.execution.chunks = 2;
  const IterationModel model(problem);
  CHECK(iteration_bound(bound_inputs(model), {2, 1}).value == Approx(4 * 30).epsilon(1e-6));
}

// 6 interleaved micro-batches on 3 devices. One of them has at least 3 of 8 layers of 3 s: 6 · 9 s; an equal
// share is 6 · 8 s.
TEST_CASE("interleaved: the device with the most layers is the slowest") {
  Problem problem{flat_topology({3}, link_of(0, 1e12), link_of(0, 1e12)), chain_job(8, 0, 0), {}};
  problem.job.training.global_batch = 6;
  problem.job.execution.schedule = Schedule::interleaved;
  problem.job.execution.chunks = 2;
  const IterationModel model(problem);
  CHECK(iteration_bound(bound_inputs(model), {3, 1}).value == Approx(6 * 9).epsilon(1e-6));
}

// 4 fast devices (1 s forward, 2 s backward per layer) and 4 of half the speed do the work of 6 fast devices.
TEST_CASE("heterogeneous devices share the work in proportion to their speeds") {
  Problem problem{flat_topology({8}, link_of(0, 1e12), link_of(0, 1e12)), chain_job(12, 1e3, 1), {}};
  for (int i = 4; i < 8; ++i) problem.topology.edit().devices[at(i)].speed = 0.5;
  problem.job.training.global_batch = 600;
  const IterationModel model(problem);
  const IterationBound bound = iteration_bound(bound_inputs(model), {1, 8});
  CHECK(bound.value == Approx(600 * 12 * 3 / 6.0).epsilon(0.01));
  CHECK(bound.winner == "balanced compute");
}

TEST_CASE("a model that cannot fit in memory is reported") {
  Problem problem{flat_topology({4}, link_of(0, 1e9), link_of(0, 1e9)), chain_job(8, 1e9, 1e3), {}};
  problem.job.training.global_batch = 4;
  const StageNeeds needs = IterationModel(problem).stages.needs({0, 8}, 1);
  const double held = needs.state + needs.per_micro_batch + needs.working;
  problem.topology.edit().gpus[0].memory = Bytes(held / 2.5);
  const IterationModel model(problem);
  const BoundInputs bounds = bound_inputs(model);
  CHECK(min_stages(bounds) == 3);
  CHECK_FALSE(iteration_bound(bounds, {2, 1}).fits);
  CHECK(iteration_bound(bounds).fits);
  problem.topology.edit().gpus[0].memory = Bytes(held / 10);
  CHECK_FALSE(iteration_bound(bound_inputs(model)).fits);
  CHECK(min_stages(bound_inputs(model)) == 0);
}

// Activations of 8 layers, all replicated: stages of one device hold one copy, those of four hold four.
TEST_CASE("memory bounds count no more copies of activations than the smallest tensor degree holds") {
  Problem problem{flat_topology({4}, link_of(0, 1e9), link_of(0, 1e9)), chain_job(8, 1e3, 1e6), {}};
  for (Layer& layer : std::get<LayerChain>(problem.job.model).layers)
    layer.activation_memory = layer.replicated_memory = Bytes(1e9);
  problem.job.training.global_batch = 1;
  problem.job.parallelism.sequence_parallel = false;
  problem.topology.edit().gpus[0].memory = Bytes(2.1e9);
  const Plan plan = plan_of(problem.job, 4, 1, 1);
  for (const std::vector<int>& degrees : {std::vector{1}, std::vector{1, 4}}) {
    const IterationModel model(problem, degrees,
                               std::make_shared<const NetworkCost>(problem.topology, problem.constants));
    CHECK(estimate_iteration(model, plan).deficit_bytes <= 0);
    CHECK(iteration_bound(bound_inputs(model), {4, 1}).fits);
  }
  const IterationModel whole(problem, 4);
  CHECK_FALSE(iteration_bound(bound_inputs(whole), {1, 1}).fits);
}

// One large GPU and four small ones, which together have 1.4 times its memory: all layers fit on the large
// one.
TEST_CASE("memory bounds allow one large device if devices differ and degrees are mixed") {
  Problem problem{flat_topology({1, 4}, link_of(0, 1e9), link_of(0, 1e9)), chain_job(8, 1e3, 1e6), {}};
  for (Layer& layer : std::get<LayerChain>(problem.job.model).layers)
    layer.activation_memory = layer.replicated_memory = Bytes(5e9);
  problem.job.training.global_batch = 1;
  problem.job.parallelism.sequence_parallel = false;
  Topology& topology = problem.topology.edit();
  topology.gpus.push_back(topology.gpus.front());
  topology.gpus[0].memory = Bytes(80e9);
  topology.gpus[1].memory = Bytes(8e9);
  for (int device = 1; device < 5; ++device) topology.devices[at(device)].gpu = 1;
  for (const Recomputation recomputation : {Recomputation::none, Recomputation::full}) {
    problem.job.execution.recomputation = recomputation;
    const IterationModel model(problem, {1, 4},
                               std::make_shared<const NetworkCost>(problem.topology, problem.constants));
    REQUIRE(estimate_iteration(model, plan_of(problem.job, 1, 1, 1)).deficit_bytes <= 0);
    CHECK(iteration_bound(bound_inputs(model)).fits);
    CHECK(iteration_bound(bound_inputs(model), {1, 1}).fits);
  }
}

// The activations of a micro-batch take 1 / 64 of the memory that the state leaves on the largest of two
// stages. Under gpipe a plan with as rare flushes as fit is compared with the bound. A step per flush or
// micro-batch would take hours.
TEST_CASE("the bound of a billion micro-batches is found like that of a few") {
  for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b})
    for (const int batch : {600, 6'000'000, 1'000'000'000}) {
      CAPTURE(schedule, batch);
      Problem problem{flat_topology({4}, link_of(1e-3, 1e8), link_of(1e-3, 1e8)), chain_job(8, 1e6, 1e6), {}};
      problem.job.training.global_batch = batch;
      problem.job.execution.schedule = schedule;
      const StageNeeds needs = IterationModel(problem).stages.needs({0, 4}, 1);
      problem.topology.edit().gpus[0].memory =
          Bytes(needs.state + needs.working + 64 * needs.per_micro_batch);
      const IterationModel model(problem);
      Plan plan = plan_of(problem.job, 2, 2, batch / 2);
      if (schedule == Schedule::gpipe) plan.execution.flush = max_fitting_flush(model, plan);
      const IterationEstimate estimate = estimate_iteration(model, plan);
      REQUIRE(estimate.deficit_bytes <= 0);
      const IterationBound bound = iteration_bound(bound_inputs(model));
      CHECK(bound.fits);
      CHECK(bound.value <= estimate.iteration_s * (1 + 1e-9));
      CHECK(bound.value >= 0.9 * estimate.iteration_s);
    }
}

TEST_CASE("a bound that is stopped is lower, and one that is stopped at once does not exist") {
  Problem problem = tiny_problem(3);
  const IterationModel model(problem);
  int asked = 0;
  const BoundInputs bounds = bound_inputs(model, [&] { return ++asked < 0; });
  const int prepared = asked;
  REQUIRE(prepared > 10);
  const double whole = iteration_bound(bounds).value;
  const int all = asked;
  REQUIRE(all > prepared + 100);
  CHECK_THROWS_AS(bound_inputs(model, [] { return true; }), WorkStopped);
  asked = 0;
  CHECK_THROWS_AS(bound_inputs(model, [&] { return ++asked == prepared; }), WorkStopped);
  for (const int last : {prepared + 1, (prepared + all) / 2, all}) {
    CAPTURE(last);
    asked = 0;
    const IterationBound cut = iteration_bound(bound_inputs(model, [&] { return ++asked >= last; }));
    CHECK(cut.fits);
    CHECK(cut.value > 0);
    CHECK(cut.value <= whole * (1 + 1e-12));
    CHECK(asked <= last + 100);  // one question for each number of pipelines that is left out
  }
}
