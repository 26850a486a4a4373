// Failures of devices that have a share of a sharded optimizer, with times and bytes derived by hand.
#include <numeric>
#include <string>
#include <vector>

#include "core/plan/sharing_replicas.hpp"
#include "simulator/run/checkpoint_period.hpp"
#include "simulator/run/recovery_graph.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/chain_simulation.hpp"
#include "tests/support/error_message.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

using Kind = DeviceEvent::Kind;

/// Replicas of one layer with two micro-batches each: 6 s, and the all-gather of parameters. Per replica,
/// 1e6 parameters with 2 bytes of weights, and 12 bytes in a checkpoint, of which it writes or reads 2 MB/s.
/// Links have 1 MB/s.
struct ShardedRun : ChainRun {
  explicit ShardedRun(int replicas, OptimizerSharding sharding = OptimizerSharding::zero1)
      : ChainRun(1, replicas, 2) {
    problem.job.execution.gradient_sync = GradientSync::ring;
    problem.job.execution.optimizer_sharding = sharding;
    plan = plan_of(problem.job, 1, replicas, 2);
    scenario.detection_s = 1;
    scenario.checkpoint = Checkpoint{16e6, {}, 0};
  }
};

/// Bytes, rounded, of every fetch: {to, from, bytes}; from -1 is the checkpoint.
std::vector<std::vector<long long>> fetched(const std::vector<Fetch>& fetches) {
  std::vector<std::vector<long long>> result;
  for (const Fetch& it : fetches)
    result.push_back({it.to, it.from.value_or(-1), static_cast<long long>(std::llround(it.bytes))});
  return result;
}

double total_bytes(const std::vector<Fetch>& fetches) {
  return std::accumulate(fetches.begin(), fetches.end(), 0.0,
                         [](double sum, const Fetch& it) { return sum + it.bytes; });
}

}  // namespace

// Two replicas gather halves of the parameters in 1 s: iterations of 7 s. Device 1 leaves at 10, which is
// detected at 11. Device 0 loads 12 MB until 17, and computes four micro-batches alone until 29. Meanwhile
// device 1 has rejoined. From device 0 it fetches half of the 12 MB, and half of 2 MB of weights, until 36.
TEST_CASE("restart: the remaining replicas load all shares of a sharded optimizer") {
  ShardedRun it(2);
  it.scenario.on_failure = FailurePolicy::restart;
  it.scenario.events = {{10, 1, Kind::leave}, {20, 1, Kind::join}};
  const SimReport report = it.run(3);
  CHECK(iteration_times(report) == IterationTimes{0, 7, 17, 29, 36, 43});
  CHECK(report.rolled_back == 0);
}

// Device 1 rejoins at 20. It loads its 6 MB from the checkpoint, 3 s, and 1 MB of weights from device 0, 1 s.
TEST_CASE("wait: a device that rejoins loads its share of a sharded optimizer from the checkpoint") {
  ShardedRun it(2);
  it.scenario.on_failure = FailurePolicy::wait;
  it.scenario.events = {{10, 1, Kind::leave}, {20, 1, Kind::join}};
  CHECK(iteration_times(it.run(3)) == IterationTimes{0, 7, 23, 30, 30, 37});
}

// Each device writes its half of 12 MB: 3 s. Iterations until 7 and 14; the first checkpoint until 17; the
// third iteration until 24. At 26 device 1 leaves, and nobody has its share: the third iteration is lost,
// under any policy. From 27 on device 0 loads 12 MB until 33, and computes alone until 45. It
// writes 12 MB until 51.
TEST_CASE("if a share is lost, the iterations after the checkpoint are lost, which all replicas write") {
  for (const FailurePolicy policy :
       {FailurePolicy::restart, FailurePolicy::restart_without_pipeline, FailurePolicy::spare}) {
    ShardedRun it(2);
    it.scenario.on_failure = policy;
    it.scenario.checkpoint->period_s = 12;
    it.scenario.events = {{26, 1, Kind::leave}};
    const SimReport report = it.run(4);
    CHECK(iteration_times(report) == IterationTimes{0, 7, 7, 14, 33, 45, 51, 63});
    CHECK(report.rolled_back == 1);
    it.scenario.checkpoint->is_period_automatic = true;  // one failure in 26 s
    CHECK(young_daly_period_s(it.problem, it.plan, it.scenario) == Approx(std::sqrt(2 * 3 * 26)));
  }
}

// Of 12 MB, three devices have 4 MB each, and two of them 6 MB. Device 0 gets the second half of what device
// 1 had, and device 1 all that device 2 had. Weights are whole under zero1.
TEST_CASE("when a replica leaves, the others fetch what changes hands") {
  for (const OptimizerSharding sharding : {OptimizerSharding::zero1, OptimizerSharding::zero3}) {
    const ShardedRun it(3, sharding);
    std::vector<StageShard> held = stage_shards(it.problem.topology, it.plan, {true, true, true});
    const std::vector<StageShard> all = held;
    held.pop_back();
    const std::vector<StageShard> wanted = stage_shards(it.problem.topology, it.plan, {true, true, false});
    CHECK(plan_fetches(it.problem, it.plan, held, held).empty());
    CHECK(fetched(plan_fetches(it.problem, it.plan, wanted, held)) ==
          std::vector<std::vector<long long>>{{0, 1, 2'000'000}, {1, -1, 4'000'000}});
    // It rejoins, and gets its share back, and the weights of the others from either.
    const auto back = plan_fetches(it.problem, it.plan, all, wanted);
    CHECK(total_bytes(back) == Approx(2e6 + 4e6 + (sharding == OptimizerSharding::zero1 ? 4e6 / 3 : 0)));
    for (const Fetch& fetch : back) CHECK(fetch.from.has_value());
  }
}

// 8 devices of each of 3 replicas: 2 stages of 2 layers, 2 parts of the tokens, 2-way tensor parallelism.
// Experts, which have half of the parameters, are divided among 4 devices, or like all others.
TEST_CASE("from nothing, each byte of a checkpoint is loaded once, and each weight by each copy") {
  for (const int expert : {1, 4}) {
    Job job = chain_job(4, 1e6, 0);
    for (Layer& it : std::get<LayerChain>(job.model).layers) it.expert_parameters = 5e5;
    job.execution.gradient_sync = GradientSync::ring;
    job.execution.optimizer_sharding = OptimizerSharding::zero1;
    job.execution.context = 2;
    job.execution.expert = expert;
    const Problem problem{flat_topology({24}, link_of(0, 1e6), link_of(0, 1e6)), job, {}};
    Plan plan{2, job.execution, {}};
    for (int pipeline = 0, next = 0; pipeline < 3; ++pipeline) {
      Pipeline& it = plan.pipelines.emplace_back(Pipeline{1, {}});
      for (int stage = 0; stage < 2; ++stage, next += 4)
        it.stages.push_back({{2 * stage, 2 * stage + 2}, {next, next + 1, next + 2, next + 3}});
    }
    const auto fetches =
        plan_fetches(problem, plan, stage_shards(problem.topology, plan, {true, true, true}), {});
    // Copies of a weight: 3 replicas, 2 token parts; of experts on all 4 devices of a stage: 3.
    const double others = expert == 4 ? 2e6 * 5 + 2e6 * 2 : 4e6 * 5;
    CHECK(total_bytes(fetches) == Approx(12 * 4e6 + 2 * others));
    for (const Fetch& fetch : fetches) CHECK_FALSE(fetch.from);
  }
}

// Sites of two devices, which share the state of each site. When device 3 leaves, n = 1 replica of each site
// has all of it: devices 0 and 2 fetch the other half from device 1, and device 1 needs only its weights.
TEST_CASE("with hierarchical synchronization another site has the shares of a device that leaves") {
  ShardedRun it(4);
  it.problem.topology = flat_topology({2, 2}, link_of(0, 1e6), link_of(0, 5e5));
  it.problem.job.execution.gradient_sync = GradientSync::hierarchical;
  it.plan = plan_of(it.problem.job, 1, 4, 1);
  std::vector<StageShard> held = stage_shards(it.problem.topology, it.plan, {true, true, true, true});
  for (int device = 0; device < 4; ++device) CHECK(held[at(device)].share == device % 2);
  held.pop_back();
  const auto wanted = stage_shards(it.problem.topology, it.plan, {true, true, true, false});
  CHECK(fetched(plan_fetches(it.problem, it.plan, wanted, held)) ==
        std::vector<std::vector<long long>>{{0, 1, 6'000'000}, {2, 1, 6'000'000}});
  // No checkpoint is needed.
  it.scenario.checkpoint.reset();
  it.scenario.events = {{20, 3, Kind::leave}};
  const SimReport report = it.run(6);
  CHECK(report.stopped.empty());
  CHECK(report.rolled_back == 0);
  // The first replica with each share writes it: devices 0 and 1.
  const LabelledGraph graph = checkpoint_graph(
      it.problem, it.plan, stage_shards(it.problem.topology, it.plan, {true, true, true, true}), {16e6, {}});
  REQUIRE(graph.labels.size() == 2);
  for (int device = 0; device < 2; ++device) CHECK(graph.labels[at(device)].device == device);
  CHECK(replay_makespan(graph) == Approx(3));
}

// One replica holds 16 bytes per parameter; two with zero1 hold 4 + 12 / 2 each.
TEST_CASE("a replica that remains alone holds all state, which may exceed its memory") {
  ShardedRun it(2);
  it.problem.topology.edit().gpus[0].memory = Bytes(12e6);
  it.scenario.on_failure = FailurePolicy::restart;
  CHECK(it.run(2).out_of_memory.empty());
  it.scenario.events = {{10, 1, Kind::leave}};
  CHECK(it.run(2).out_of_memory == std::vector<int>{0});
}

TEST_CASE("a sharded optimizer survives departures with a checkpoint or without the devices that leave") {
  ShardedRun it(2);
  it.problem.topology = flat_topology({3}, link_of(0, 1e6), link_of(0, 1e6));
  const auto error = [&] { return error_message([&] { it.run(3); }); };
  it.scenario.checkpoint.reset();
  it.scenario.events = {{10, 2, Kind::leave}};
  CHECK_NOTHROW(it.run(3));
  it.scenario.events = {{10, 1, Kind::leave}};
  CHECK(
      error() ==
      "device failures are not supported with zero1 without a checkpoint: no other device has the "
      "optimizer shards of a device that leaves; add recovery.checkpoint, or use `optimizer_sharding: none`");
  it.scenario.checkpoint = Checkpoint{16e6, {}, 0};
  CHECK_NOTHROW(it.run(3));
  it.scenario.on_failure = FailurePolicy::drop_pipeline;
  CHECK(error() ==
        "policy drop-pipeline is not supported with zero1 if devices of the plan leave: no other device has "
        "the optimizer shards of a device that leaves; use a checkpoint with policy `restart` or `wait`, or "
        "`optimizer_sharding: none`");
}
