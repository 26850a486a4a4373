// Sharded optimizers in the simulator: times, messages and memory by hand.
#include "core/plan/optimizer_sharding.hpp"

#include <map>
#include <set>
#include <string>

#include "core/plan/model_state.hpp"
#include "core/plan/sharing_replicas.hpp"
#include "simulator/model/stage_load.hpp"
#include "simulator/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

constexpr double parameters = 5e7;      // per layer: 1e8 bytes
constexpr double bytes_per_s = 1e8;     // of links, which share nothing
constexpr double memory_bytes_s = 8e8;  // an optimizer step of one layer moves 16 bytes per parameter: 1 s

/// Devices of 1 s forward and 2 s backward per layer.
Problem sharded_problem(int devices, int layers, OptimizerSharding sharding, GradientSync sync) {
  Problem problem{flat_topology({devices}, link_of(0, bytes_per_s), link_of(0, bytes_per_s)),
                  chain_job(layers, parameters, 1e6), Calibration{1, 0, 1, 0},
                  uniform_roofline({.memory_forward = 0, .memory_backward = 0, .memory_head = 0})};
  problem.topology.edit().gpus.front().memory_bandwidth = BitsPerSecond(8 * memory_bytes_s);
  problem.job.execution.gradient_sync = sync;
  problem.job.execution.optimizer_sharding = sharding;
  return problem;
}

double seconds(const Problem& problem, int stages) {
  const Plan plan = plan_of(problem.job, stages, problem.topology->size() / stages, 1);
  return replay_makespan(iteration_graph(problem, plan));
}

std::map<int, double> sent_bytes(const Problem& problem, const Plan& plan) {
  const LabelledGraph lowered = iteration_graph(problem, plan);
  std::map<int, double> bytes;
  for (std::size_t i = 0; i < lowered.labels.size(); ++i)
    if (lowered.graph.tasks[i].kind == TaskKind::flow)
      bytes[lowered.labels[i].device] += lowered.graph.tasks[i].amount;
  return bytes;
}

constexpr GradientSync half_syncs[] = {GradientSync::ring, GradientSync::sharded_ps};

/// Bytes of state per parameter on one of n replicas.
double state_per_parameter(Precision precision, Optimizer optimizer, OptimizerSharding sharding, int n) {
  Problem problem = sharded_problem(n, 5, sharding, GradientSync::ring);
  problem.job.training.precision = precision;
  problem.job.training.optimizer = optimizer;
  const Plan plan = plan_of(problem.job, 1, n, 1);
  return LoadModel(problem, plan).of(plan.pipelines[0].stages[0]).state_bytes / (5 * parameters);
}

}  // namespace

// F 0–2, B 2–6. Two replicas: a half of 2e8 bytes of gradients 6–7, a half of 2 s of optimizer step 7–8, a
// half of the parameters 8–9. Three replicas send a third: twice around a ring, 4/3 s each, or to each other
// at once, 2/3 s each; the step takes 2/3 s.
TEST_CASE("zero1 updates a part of the parameters between reduce-scatter and all-gather") {
  constexpr OptimizerSharding zero1 = OptimizerSharding::zero1;
  CHECK(seconds(sharded_problem(2, 2, OptimizerSharding::none, GradientSync::ring), 1) == Approx(6 + 2 + 2));
  CHECK(seconds(sharded_problem(2, 2, zero1, GradientSync::ring), 1) == Approx(9));
  CHECK(seconds(sharded_problem(2, 2, zero1, GradientSync::sharded_ps), 1) == Approx(9));
  CHECK(seconds(sharded_problem(3, 2, zero1, GradientSync::ring), 1) == Approx(6 + 10.0 / 3));
  CHECK(seconds(sharded_problem(3, 2, zero1, GradientSync::sharded_ps), 1) == Approx(6 + 2));
}

// As above, but all gradients go around the ring twice: 6–8, 8–9 the step, 9–10 the parameters.
TEST_CASE("DeepSpeed all-reduces the gradients of a sharded optimizer") {
  Problem problem = sharded_problem(2, 2, OptimizerSharding::zero1, GradientSync::ring);
  problem.job.execution.messaging = Messaging::deepspeed;
  CHECK(seconds(problem, 1) == Approx(10));
}

// One layer per stage, messages of 0.01 s: the first stage has its gradients after 1 + 0.01 + 3 + 0.01 + 2 s,
// long after the other stage has finished everything.
TEST_CASE("the stages of a pipeline update their parameters independently") {
  constexpr OptimizerSharding zero1 = OptimizerSharding::zero1;
  for (const GradientSync sync : half_syncs)
    CHECK(seconds(sharded_problem(4, 2, zero1, sync), 2) == Approx(6.02 + 0.5 + 0.5 + 0.5));
  CHECK(seconds(sharded_problem(6, 2, zero1, GradientSync::ring), 2) == Approx(6.02 + 5.0 / 3));
  CHECK(seconds(sharded_problem(6, 2, zero1, GradientSync::sharded_ps), 2) == Approx(6.02 + 1));
}

// Of 18 bytes per parameter, 4 are gradients, of which a half is 2e8 bytes per 2 layers, and 2 are weights.
// The step moves 18 bytes.
TEST_CASE("gradients are scattered in their own precision and parameters gathered in that of the training") {
  Problem problem = sharded_problem(2, 2, OptimizerSharding::zero1, GradientSync::ring);
  problem.job.training.precision = Precision::bf16;
  problem.job.training.optimizer = Optimizer::adam_18;
  CHECK(seconds(problem, 1) == Approx(6 + 2 + 18.0 / 16 + 1));
}

// Gradients of layer 1 4–4.5, of layer 0 6–6.5; the step 6.5–7.5; parameters of both layers 7.5–8.5.
TEST_CASE("with overlap the gradients of a layer are scattered during the backward of others") {
  Problem problem = sharded_problem(2, 2, OptimizerSharding::zero1, GradientSync::ring);
  problem.job.execution.overlap = true;
  CHECK(seconds(problem, 1) == Approx(8.5));
}

// F 0–1, B 1–3; 1 s to compress 1e8 bytes, half of a half of them 4–4.25, a half is decompressed 4.25–4.75;
// no optimizer step; parameters 4.75–5.25.
TEST_CASE("a device decompresses only its part of the gradients") {
  Problem problem = sharded_problem(2, 1, OptimizerSharding::zero1, GradientSync::ring);
  problem.topology.edit().gpus.front().memory_bandwidth = unlimited;
  problem.job.execution.compression = {1, 0.5, BitsPerSecond(8e8)};
  CHECK(seconds(problem, 1) == Approx(5.25));
}

// One layer of 3 s, and collectives of n = 3 in one step of a third, 1/3 s. The step of 1 s is shared.
TEST_CASE("zero2 and zero3 with sharded-ps send every part directly") {
  CHECK(seconds(sharded_problem(3, 1, OptimizerSharding::zero2, GradientSync::sharded_ps), 1) ==
        Approx(3 + 1.0 / 3 + 1.0 / 3 + 1.0 / 3));
  // Parameters 0–1/3, F, and B with parameters that have arrived in the meantime; gradients; step.
  CHECK(seconds(sharded_problem(3, 1, OptimizerSharding::zero3, GradientSync::sharded_ps), 1) ==
        Approx(1.0 / 3 + 3 + 1.0 / 3 + 1.0 / 3));
}

// arXiv 1910.02054, section 7: (n − 1) / n of gradients and of parameters with zero1 and zero2, and of
// gradients and twice of parameters with zero3, for one micro-batch.
TEST_CASE("every device sends the bytes that the ZeRO paper states") {
  struct Case {
    OptimizerSharding sharding;
    double gradients, weights;  // how often each is sent
  };
  for (const Case& it : {Case{OptimizerSharding::zero1, 1, 1}, Case{OptimizerSharding::zero2, 1, 1},
                         Case{OptimizerSharding::zero3, 1, 2}})
    for (const GradientSync sync : half_syncs)
      for (const int devices : {2, 3, 8})
        for (const Optimizer optimizer : {Optimizer::adam_16, Optimizer::adam_18}) {
          CAPTURE(it.sharding, sync, devices, optimizer);
          Problem problem = sharded_problem(devices, 4, it.sharding, sync);
          problem.job.training.optimizer = optimizer;
          const double all = 4 * parameters, gradient_bytes = optimizer == Optimizer::adam_18 ? 4 : 2;
          const auto sent = sent_bytes(problem, plan_of(problem.job, 1, devices, 1));
          REQUIRE(sent.size() == at(devices));
          for (const auto& [device, bytes] : sent)
            CHECK(bytes ==
                  Approx(all * (it.gradients * gradient_bytes + it.weights * 2) * (devices - 1) / devices)
                      .epsilon(1e-12));
        }
}

TEST_CASE("zero1 sends gradients once per iteration however many micro-batches there are") {
  const Problem problem = sharded_problem(3, 4, OptimizerSharding::zero1, GradientSync::ring);
  CHECK(sent_bytes(problem, plan_of(problem.job, 1, 3, 5)).at(1) ==
        Approx(sent_bytes(problem, plan_of(problem.job, 1, 3, 1)).at(1)).epsilon(1e-12));
}

// Weights, gradients and the rest of the optimizers: arXiv 1910.02054, figure 1, and for adam-18 and adam-20
// docs/user-guide/features/dist_optimizer.md of Megatron-LM: 6 + 12 / n and 4 + 16 / n. adam-20-fp32 has bf16
// and fp32 gradients.
TEST_CASE("a replica holds its part of the state that is sharded") {
  struct Case {
    Precision precision;
    Optimizer optimizer;
    double weights, gradients, rest;  // bytes per parameter
  };
  for (const Case& it :
       {Case{Precision::fp16, Optimizer::adam_16, 2, 2, 12},
        Case{Precision::bf16, Optimizer::adam_18, 2, 4, 12},
        Case{Precision::fp16, Optimizer::adam_20, 2, 2, 16},
        Case{Precision::fp32, Optimizer::adam_16, 4, 4, 8}, Case{Precision::fp16, Optimizer::sgd_8, 2, 2, 4},
        Case{Precision::fp16, Optimizer::host_offload, 2, 2, 0},
        Case{Precision::bf16, Optimizer::adam_20_fp32, 2, 6, 12}})
    for (const int n : {1, 2, 3, 64}) {
      CAPTURE(it.precision, it.optimizer, n);
      const auto state = [&](OptimizerSharding sharding) {
        return state_per_parameter(it.precision, it.optimizer, sharding, n);
      };
      const auto exactly = [](double bytes) { return Approx(bytes).epsilon(1e-12); };
      CHECK(state(OptimizerSharding::none) == exactly(it.weights + it.gradients + it.rest));
      CHECK(state(OptimizerSharding::zero1) == exactly(it.weights + it.gradients + it.rest / n));
      CHECK(state(OptimizerSharding::zero2) == exactly(it.weights + (it.gradients + it.rest) / n));
      CHECK(state(OptimizerSharding::zero3) == exactly((it.weights + it.gradients + it.rest) / n));
    }
}

// PyTorch's FSDP shards weights, gradients and both moments, 4 bytes each.
TEST_CASE("a replica holds its part of adam-16-fp32 with zero3") {
  for (const int n : {1, 2, 3, 64})
    CHECK(state_per_parameter(Precision::bf16, Optimizer::adam_16_fp32, OptimizerSharding::zero3, n) ==
          Approx(16.0 / n).epsilon(1e-12));
}

TEST_CASE("the peak memory of a run with zero1 has the sharded state") {
  const Problem problem = sharded_problem(4, 4, OptimizerSharding::zero1, GradientSync::sharded_ps);
  const Plan plan = plan_of(problem.job, 2, 2, 1);
  const StageLoad load = LoadModel(problem, plan).of(plan.pipelines[0].stages[0]);
  CHECK(load.state_bytes == Approx(2 * parameters * (4 + 12.0 / 2)));
  CHECK(simulate(problem, plan, {}, SimOptions()).devices.front().peak_memory_bytes ==
        Approx(load.state_bytes + load.working_bytes + load.activation_bytes));
}

TEST_CASE("a single replica shards nothing") {
  for (const OptimizerSharding sharding :
       {OptimizerSharding::zero1, OptimizerSharding::zero2, OptimizerSharding::zero3}) {
    const Problem problem = sharded_problem(1, 2, sharding, GradientSync::ring);
    CHECK(seconds(problem, 1) == Approx(6 + 2));
  }
}

TEST_CASE("every task of a sharded optimizer has a unique name and comes after its predecessors") {
  for (const OptimizerSharding sharding :
       {OptimizerSharding::zero1, OptimizerSharding::zero2, OptimizerSharding::zero3})
    for (const GradientSync sync : half_syncs)
      for (const bool overlap : {false, true}) {
        Problem problem = sharded_problem(6, 4, sharding, sync);
        problem.job.execution.overlap = overlap;
        const int stages = sharding == OptimizerSharding::zero1 ? 2 : 1;
        const LabelledGraph lowered = iteration_graph(problem, plan_of(problem.job, stages, 6 / stages, 2));
        std::set<std::string> names;
        for (std::size_t i = 0; i < lowered.labels.size(); ++i) {
          CAPTURE(sharding, sync, overlap, format_label(lowered.labels[i]));
          REQUIRE(names.insert(format_label(lowered.labels[i])).second);
          const Task& task = lowered.graph.tasks[i];
          for (int k = 0; k < task.after_count; ++k)
            REQUIRE(lowered.graph.after[at(task.first_after + k)] < static_cast<int>(i));
        }
      }
}

TEST_CASE("shardings that cannot run are rejected") {
  for (const GradientSync sync : {GradientSync::tree, GradientSync::central_ps, GradientSync::none}) {
    const Problem problem = sharded_problem(2, 2, OptimizerSharding::zero1, sync);
    CHECK(error_message([&] { seconds(problem, 1); }) == "zero1 cannot be combined with gradient_sync " +
                                                             std::string(name_of(sync)) +
                                                             "; use ring, sharded-ps or hierarchical");
  }
  Problem problem = sharded_problem(2, 4, OptimizerSharding::zero2, GradientSync::hierarchical);
  const auto error = [&] { return error_message([&] { seconds(problem, 1); }); };
  CHECK(error() == "zero2 cannot be combined with gradient_sync hierarchical; use ring or sharded-ps");
  problem.job.execution.schedule = Schedule::interleaved;
  problem.job.execution.chunks = 2;
  problem.job.execution.gradient_sync = GradientSync::ring;
  CHECK(error() == "zero2 cannot be combined with schedule interleaved; use 1f1b");
  problem.job.execution.gradient_sync = GradientSync::hierarchical;
  problem.job.execution.optimizer_sharding = OptimizerSharding::zero1;
  CHECK(error() ==
        "zero1 with gradient_sync hierarchical cannot be combined with schedule interleaved; use 1f1b");
}

/// Two sites of so many devices each. Between sites, links have half of the bandwidth.
Problem two_site_problem(const std::vector<int>& per_site, GradientSync sync = GradientSync::hierarchical) {
  Problem problem = sharded_problem(per_site[0] + per_site[1], 2, OptimizerSharding::zero1, sync);
  const Gpu gpu = problem.topology->gpus.front();
  problem.topology = flat_topology(per_site, link_of(0, bytes_per_s), link_of(0, bytes_per_s / 2));
  problem.topology.edit().gpus.front() = gpu;
  return problem;
}

// F and B until 6 s. Inside each site, every device sends half of 2e8 bytes of gradients to the other, 6–7;
// halves go around a ring of two sites in two rounds of a quarter, 1 s each, 7–9; the step of a half 9–10;
// halves of the parameters inside the sites 10–11.
TEST_CASE("with hierarchical synchronization the replicas of a site share the optimizer state") {
  const Problem problem = two_site_problem({2, 2});
  const Plan plan = plan_of(problem.job, 1, 4, 1);
  CHECK(seconds(problem, 1) == Approx(11));
  for (const auto& [device, bytes] : sent_bytes(problem, plan))
    CHECK(bytes == Approx(1e8 + 2 * 0.5e8 + 1e8).epsilon(1e-12));
  CHECK(LoadModel(problem, plan).of(plan.pipelines[0].stages[0]).state_bytes ==
        Approx(2 * parameters * (4 + 12.0 / 2)).epsilon(1e-12));
}

// A site with a single replica shares with nobody: the whole gradients go around the ring and the whole step
// is computed, between the sums and copies of the other site, which has three devices. 6 s of computations;
// two devices send 2e8 bytes to the third at once, 2 s; a ring of two, 2 · 1e8 bytes at 5e7 per second, 4 s;
// the step, 2 s; the copies, 2 s.
TEST_CASE("replicas share with as many others as the smallest site has") {
  const Problem problem = two_site_problem({3, 1});
  const Plan plan = plan_of(problem.job, 1, 4, 1);
  CHECK(sharing_replicas(problem.topology, plan) == 1);
  CHECK(seconds(problem, 1) == Approx(6 + 2 + 4 + 2 + 2));
  CHECK(sharing_replicas(problem.topology, plan_of(problem.job, 1, 3, 1)) == 3);
}

// Sites of 4 and 2 have 3 instances of 2. F and B until 6 s; in every instance, each device sends half of 2e8
// bytes of gradients to the other, 6–7. Rings of 3 owners have 4 rounds of a third of a half at 5e7 per
// second, 2/3 s each. The step of a half takes 1 s, and the halves of the parameters 1 s.
TEST_CASE("with hierarchical-ring the replicas of an instance share the optimizer state") {
  constexpr GradientSync sync = GradientSync::hierarchical_ring;
  CHECK(seconds(two_site_problem({2, 2}, sync), 1) == Approx(11));  // as with hierarchical
  const Problem problem = two_site_problem({4, 2}, sync);
  const Plan plan = plan_of(problem.job, 1, 6, 1);
  CHECK(sharing_replicas(problem.topology, plan) == 2);
  CHECK(seconds(problem, 1) == Approx(6 + 1 + 4 * 2.0 / 3 + 1 + 1));
  for (const auto& [device, bytes] : sent_bytes(problem, plan))
    CHECK(bytes == Approx(1e8 + 4 * 1e8 / 3 + 1e8).epsilon(1e-12));
  CHECK(LoadModel(problem, plan).of(plan.pipelines[0].stages[0]).state_bytes ==
        Approx(2 * parameters * (4 + 12.0 / 2)).epsilon(1e-12));
}

// Sites of 3 and 1 can only have instances of 1: all devices form a ring, in 6 rounds of 2e8 / 4 bytes, 1 s
// each between the sites. The step is that of all parameters, 2 s.
TEST_CASE("instances of a single replica share nothing") {
  CHECK(seconds(two_site_problem({3, 1}, GradientSync::hierarchical_ring), 1) == Approx(6 + 6 + 2));
}

// Sites a and b have devices 0 to 3 and 4 and 5. The first stage of three pipelines is at a; the second stage
// of one of them is at a, too.
TEST_CASE("only pipelines at the same sites in all stages are in one instance") {
  Problem problem = two_site_problem({4, 2}, GradientSync::hierarchical_ring);
  Plan plan = plan_of(problem.job, 2, 3, 1);
  const auto place = [&](std::vector<std::pair<int, int>> devices) {
    for (std::size_t i = 0; i < 3; ++i) {
      plan.pipelines[i].stages[0].devices = {devices[i].first};
      plan.pipelines[i].stages[1].devices = {devices[i].second};
    }
  };
  place({{0, 3}, {1, 4}, {2, 5}});
  CHECK(sharing_replicas(problem.topology, plan) == 1);
  plan.pipelines.erase(plan.pipelines.begin());
  CHECK(sharing_replicas(problem.topology, plan) == 2);
  plan.execution.schedule = Schedule::interleaved;  // which `hierarchical` cannot have
  plan.execution.chunks = 2;
  check_optimizer_sharding(plan);
}

TEST_CASE("a device of a single replica may leave, because nothing is sharded") {
  const Problem problem = sharded_problem(4, 2, OptimizerSharding::zero1, GradientSync::ring);
  Problem unsharded = problem;
  unsharded.job.execution.optimizer_sharding = OptimizerSharding::none;
  Scenario scenario;
  scenario.events.push_back({1, 0, DeviceEvent::Kind::leave});
  scenario.events.push_back({3, 0, DeviceEvent::Kind::join});
  const auto length_s = [&](const Problem& of) {
    return simulate(of, plan_of(of.job, 2, 1, 2), scenario, SimOptions()).length_s;
  };
  CHECK(length_s(problem) == Approx(length_s(unsharded)));
}
