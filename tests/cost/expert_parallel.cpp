// Stages whose devices divide the experts of a layer: what they hold, send each other and synchronize.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "core/base/rng.hpp"
#include "core/plan/communication.hpp"
#include "core/plan/model_state.hpp"
#include "planner/cost/iteration_time/iteration_time.hpp"
#include "simulator/model/stage_load.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/small_problems.hpp"
#include "tests/support/stage_groups.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

/// A layer with 60 parameters outside of experts and 800 in experts, from which a sequence sends 4e6 bytes to
/// experts; its output has 1e6 bytes.
Job expert_job(int layers, int stage_data, int expert, int micro_batch) {
  Job job = chain_job(layers, 860, 1e6);
  for (Layer& it : std::get<LayerChain>(job.model).layers) {
    it.expert_parameters = 800;
    it.routed_mlps = 1;
    it.dispatched = Bytes(4e6);
  }
  job.training.global_batch = job.execution.micro_batch = micro_batch;
  job.execution.stage_data = stage_data;
  job.execution.expert = expert;
  job.execution.gradient_sync = GradientSync::ring;
  return job;
}

std::map<Activity, double> bytes_by_activity(const LabelledGraph& lowered) {
  std::map<Activity, double> bytes;
  for (std::size_t i = 0; i < lowered.labels.size(); ++i)
    bytes[lowered.labels[i].activity] += lowered.graph.tasks[i].amount;
  return bytes;
}

const Link fast = link_of(0, 1e18);

/// Two blocks of 8 experts, of which a token visits 2, so that a sequence sends 2 · 16 · 8 fp16 numbers, 512
/// bytes, per block. GPUs compute in no time.
Problem dispatch_problem(Topology topology, int expert, ExpertDispatch dispatch) {
  Job job;
  Transformer model{.layers = 2, .hidden = 8, .heads = 2, .sequence = 16, .vocabulary = 10};
  model.experts = {.count = 8, .per_token = 2, .width = 8};
  model.blocks.assign(2, {Mixer::attention, Mlp::experts});
  job.model = model;
  job.efficiency = 1;
  job.training.global_batch = job.execution.micro_batch = 8 * expert;
  job.execution.stage_data = job.execution.expert = expert;
  job.execution.expert_dispatch = dispatch;
  job.execution.gradient_sync = GradientSync::none;
  for (Gpu& gpu : topology.gpus) gpu.peak = gpu.peak_tf32 = gpu.peak_fp32 = FlopsPerSecond(1e30);
  return {std::move(topology), job, {}};
}

}  // namespace

// Two tensor-parallel groups of two: the 60 parameters outside of experts in halves, of which two devices
// have the same; 800 in experts in quarters.
TEST_CASE("a mesh divides experts apart from other parameters") {
  const Job job = expert_job(1, 2, 4, 2);
  const StageMesh mesh = stage_mesh(job.execution, 4);
  CHECK(mesh.tensor == 2);
  CHECK(mesh.copies(false) == 2);
  CHECK(mesh.copies(true) == 1);
  CHECK(mesh.held_parameters(layer_chain(job).front()) == 60 / 2 + 800 / 4);
  const StageMesh undivided = stage_mesh(expert_job(1, 2, 1, 2).execution, 4);
  CHECK(undivided.held_parameters(layer_chain(job).front()) == 860 / 2);
}

// Pipelines 0 (devices 0 to 3) and 1 (4 to 7). A micro-batch of 2 sequences has an output of 2e6 bytes, of
// which a tensor-parallel group computes half. It sends 8e6 bytes to experts, a device a quarter.
TEST_CASE("groups of a stage exchange sums and tokens") {
  const Job job = expert_job(1, 2, 4, 2);
  const Plan plan = staged_plan(job, 1, 2, 4, 1);
  const LayerBytes bytes(job, job.execution);
  std::vector<std::vector<int>> reduced, exchanged;
  for (const Communication& it : pipeline_communications(Topology(), bytes, plan, 1)) {
    if (it.pass == Pass::backward) continue;
    CAPTURE(it.devices);
    if (it.payload == Payload::partial_sums) {
      reduced.push_back(it.devices);
      CHECK(it.bytes == 1e6);
      CHECK(it.count == 1);  // of the attention; the experts need none
    } else {
      exchanged.push_back(it.devices);
      CHECK(it.collective == Collective::all_to_all);
      CHECK(it.bytes == 2e6);
      CHECK(it.count == 2);  // there and back
    }
  }
  CHECK(reduced == std::vector<std::vector<int>>{{4, 5}, {6, 7}});
  CHECK(exchanged == std::vector<std::vector<int>>{{4, 5, 6, 7}});
}

TEST_CASE("experts are synchronized after and apart from other parameters") {
  const Job job = expert_job(1, 2, 4, 2);
  const Plan plan = staged_plan(job, 1, 2, 4, 1);
  const LayerBytes bytes(job, job.execution);
  const double synced = parameter_bytes(job.training).synced;
  std::vector<std::vector<int>> dense, experts;
  for (const Communication& it : replica_communications(bytes, plan)) {
    CHECK((it.experts || experts.empty()));
    (it.experts ? experts : dense).push_back(it.devices);
    CHECK(it.bytes == (it.experts ? 800.0 / 4 : 60.0 / 2) * synced);
  }
  CHECK(dense == std::vector<std::vector<int>>{{0, 2, 4, 6}, {1, 3, 5, 7}});
  CHECK(experts == std::vector<std::vector<int>>{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
}

// L layers of 1 s and 2 s per sequence, m micro-batches of b sequences on e devices of one host. A device
// sends 4e6 b ÷ e² bytes to each of the others, twice per pass, and twice more in the backward with `full`
// and `mlp` (of which a chain does not say what MLPs compute).
TEST_CASE("an all-to-all takes as long as its messages on separate links") {
  for (const Recomputation recomputation : {Recomputation::none, Recomputation::mlp, Recomputation::full})
    for (const int e : {2, 4, 8}) {
      const int L = 3, m = 2, b = 16;
      CAPTURE(name_of(recomputation), e);
      Job job = expert_job(L, e, e, b);
      job.execution.recomputation = recomputation;
      const bool is_full = recomputation == Recomputation::full;
      Problem problem{hosts_with(1, e, link_of(0.003, 1e6), fast), job, {}};
      problem.constants.local_message_overhead_s = 0.001;
      Plan plan = staged_plan(job, 1, 1, e, m);
      plan.execution.gradient_sync = problem.job.execution.gradient_sync = GradientSync::none;
      const LabelledGraph lowered = iteration_graph(problem, plan);
      const double computing = m * L * b * (is_full ? 4.0 : 3.0) / e,
                   rounds = m * L * (recomputation == Recomputation::none ? 4 : 6);
      const double seconds = computing + rounds * (0.003 + 0.001 + 4e6 * b / (e * e) / 1e6);
      CHECK(std::abs(replay_makespan(lowered) / seconds - 1) < 1e-9);
      CHECK(bytes_by_activity(lowered)[Activity::all_to_all] ==
            Approx(rounds * e * (e - 1) * 4e6 * b / (e * e)));
      CHECK(bytes_by_activity(lowered)[Activity::all_reduce] == 0);
    }
}

// Each of e devices sends its e − 1 messages over one NVLink port; each of two hosts its (e ÷ 2)² messages
// over one card.
TEST_CASE("messages of an all-to-all share ports and network cards") {
  const int e = 4, b = 16;
  Job job = expert_job(1, e, e, b);
  job.execution.gradient_sync = GradientSync::none;
  const double message = 4e6 * b / (e * e), computing = b * 3.0 / e;
  Link port = link_of(0, 1e6);
  port.shared_by_sender = true;
  const Problem inside{hosts_with(1, e, port, fast), job, {}};
  const Plan plan = staged_plan(job, 1, 1, e, 1);
  CHECK(replay_makespan(iteration_graph(inside, plan)) ==
        Approx(computing + 4 * (e - 1) * message / 1e6).epsilon(1e-9));
  Topology hosts = hosts_with(2, e / 2, fast, fast);
  for (Device& it : hosts.devices) it.host_uplink = BitsPerSecond(8e6);
  const Problem across{hosts, job, {}};
  CHECK(replay_makespan(iteration_graph(across, plan)) ==
        Approx(computing + 4 * (e / 2) * (e / 2) * message / 1e6).epsilon(1e-9));
}

TEST_CASE("devices hold their share of experts and of partitioned optimizer state") {
  Job job = expert_job(2, 2, 4, 2);
  job.training.optimizer = Optimizer::adam_16;
  job.training.precision = Precision::fp16;
  const Topology topology = hosts_with(1, 8, fast, fast);
  const auto state_of = [&](OptimizerSharding sharding) {
    job.execution.optimizer_sharding = sharding;
    const Problem problem{topology, job, {}};
    const Plan plan = staged_plan(job, 1, 2, 4, 1);
    const double simulated = LoadModel(problem, plan).of(plan.pipelines[0].stages[0]).state_bytes;
    CHECK(cost::StageCosts(problem, 4).needs({0, 2}, 2).state == Approx(simulated));
    return simulated;
  };
  // Two layers: 2 (60 ÷ 2 + 800 ÷ 4) parameters of 16 bytes.
  CHECK(state_of(OptimizerSharding::none) == 2 * 230 * 16);
  // 2 + 2 bytes of weights and gradients; 12 of state among 2 pipelines × 2 copies, or among 2 for experts.
  CHECK(state_of(OptimizerSharding::zero1) == Approx(2 * (30 * (4 + 12.0 / 4) + 200 * (4 + 12.0 / 2))));
}

TEST_CASE("estimates of expert parallelism equal simulations") {
  Rng rng = Rng::for_task(7, 0);
  const auto below = [&](int n) { return static_cast<int>(rng.below(static_cast<std::uint32_t>(n))); };
  for (int number = 0; number < 60; ++number) {
    const int tensor = 1 << below(3), data = 1 << below(3), devices = tensor * data;
    const int expert = std::min(devices, 1 << below(4)), stages = 1 + below(3), replicas = 1 + below(3);
    CAPTURE(number, tensor, data, expert, stages, replicas);
    Job job = expert_job(6, data, expert, 8);
    job.execution.schedule = below(2) == 0 ? Schedule::gpipe : Schedule::one_f_one_b;
    job.execution.recomputation =
        std::array{Recomputation::none, Recomputation::mlp, Recomputation::full}[at(below(3))];
    job.execution.gradient_sync = below(2) == 0 ? GradientSync::ring : GradientSync::sharded_ps;
    job.execution.overlap = below(3) == 0;
    if (below(2) == 0) job.execution.optimizer_sharding = OptimizerSharding::zero1;
    if (below(3) == 0)
      for (Layer& it : std::get<LayerChain>(job.model).layers)
        it.parameters += 1e6, it.expert_parameters += 8e5;
    Link inside = link_of(1e-4, 4e7);
    inside.shared_by_sender = below(2) == 0 && job.execution.gradient_sync == GradientSync::ring;
    // Messages to other stages and replicas cross links of their own.
    const Problem problem{hosts_with(stages * replicas, devices, inside, link_of(1e-3, 1e8)), job, {}};
    const Plan plan = staged_plan(job, stages, replicas, devices, 3);
    const cost::IterationModel model(problem, devices);
    const double estimated = cost::estimate_iteration(model, plan).iteration_s;
    CHECK(replay_makespan(iteration_graph(problem, plan)) == Approx(estimated).epsilon(0.02));
    CHECK(replay_makespan(reduced_iteration_graph(problem, plan)) ==
          Approx(replay_makespan(iteration_graph(problem, plan))));
  }
}

// Of 8 experts, 2 hosts have 4 each. A token visits none of a host with probability (4 · 3) ÷ (8 · 7) = 3 ÷
// 14, so it sends 11 ÷ 14 vectors for its 2 visits. With a host for each expert, it sends what it visits.
TEST_CASE("a token sends one vector to a host with any of its experts") {
  const Experts experts{.count = 8, .per_token = 2, .width = 8};
  CHECK(vectors_per_visit(experts, 2) == Approx(11.0 / 14 / 2));
  CHECK(vectors_per_visit(experts, 8) == Approx(1.0 / 8));
  CHECK(vectors_per_visit({.count = 8, .per_token = 8, .width = 8}, 4) == Approx(1.0 / 8));
}

TEST_CASE("hierarchical dispatch sends between equal local ranks, then within hosts") {
  const Problem problem = dispatch_problem(hosts_with(2, 4, fast, fast), 8, ExpertDispatch::hierarchical);
  const Plan plan = staged_plan(problem.job, 1, 1, 8, 1);
  std::map<Payload, std::vector<std::vector<int>>> groups;
  for (const Communication& it :
       pipeline_communications(problem.topology, LayerBytes(problem.job, problem.job.execution), plan, 0)) {
    if (it.pass == Pass::backward || it.layers.first > 0) continue;
    groups[it.payload].push_back(it.devices);
    // A device has 8 sequences, which send 512 bytes each in a flat dispatch.
    CHECK(it.bytes == Approx(it.payload == Payload::expert_tokens ? 4096 * 2 * 11.0 / 28 : 4096));
  }
  CHECK(groups[Payload::expert_tokens] == std::vector<std::vector<int>>{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  CHECK(groups[Payload::host_tokens] == std::vector<std::vector<int>>{{0, 1, 2, 3}, {4, 5, 6, 7}});
}

// On one host, and on hosts with different numbers of devices, the dispatch is flat.
TEST_CASE("groups spread unevenly over hosts dispatch tokens directly") {
  const ExecutionConfig execution{.expert = 4, .expert_dispatch = ExpertDispatch::hierarchical};
  Topology topology = hosts_with(2, 3, fast, fast);
  const auto hosts_of = [&](std::vector<int> group) { return dispatching_hosts(topology, execution, group); };
  CHECK(hosts_of({0, 1, 2}) == 1);
  CHECK(hosts_of({0, 1, 2, 3}) == 1);
  CHECK(hosts_of({0, 3, 1, 4}) == 1);
  CHECK(hosts_of({0, 1, 3, 4}) == 2);
  CHECK(hosts_of({0, 3}) == 2);
}

// H hosts of g devices. Per all-to-all, a device with V = 4096 bytes of visits sends p V ÷ 2 to each other
// host, where p is the probability of a visit, then H q V ÷ 2 to each other device of its host, of which a
// token visits one with probability q. There are 4 in each of 2 blocks.
TEST_CASE("a hierarchical dispatch takes the sum of its two steps") {
  for (const auto& [hosts, gpus] : {std::pair(2, 2), std::pair(4, 2), std::pair(2, 4), std::pair(4, 1)}) {
    CAPTURE(hosts, gpus);
    const Problem problem = dispatch_problem(hosts_with(hosts, gpus, link_of(0.001, 1e6), link_of(0.01, 1e5)),
                                             hosts * gpus, ExpertDispatch::hierarchical);
    const Plan plan = staged_plan(problem.job, 1, 1, hosts * gpus, 1);
    const auto visited = [](double experts) { return 1 - (8 - experts) * (7 - experts) / (8 * 7); };
    const double per_host = visited(8.0 / hosts), per_device = visited(8.0 / (hosts * gpus));
    const double seconds =
        8 * (0.01 + per_host * 4096 / 2 / 1e5 + (gpus > 1 ? 0.001 + hosts * per_device * 4096 / 2 / 1e6 : 0));
    CHECK(std::abs(replay_makespan(iteration_graph(problem, plan)) / seconds - 1) < 1e-9);
    const cost::IterationModel model(problem, hosts * gpus);
    CHECK(cost::IterationEstimator(model).estimate_pipelines(plan).pipelines_s ==
          Approx(seconds).epsilon(1e-9));
  }
}

// All links of a host share its card, which carries g (H − 1) messages in each direction.
TEST_CASE("messages of a hierarchical dispatch share network cards") {
  Topology topology = hosts_with(2, 4, fast, fast);
  for (Device& it : topology.devices) it.host_uplink = BitsPerSecond(8e6);
  const Problem problem = dispatch_problem(std::move(topology), 8, ExpertDispatch::hierarchical);
  const Plan plan = staged_plan(problem.job, 1, 1, 8, 1);
  const double seconds = 8 * 4 * 4096 * 11.0 / 28 / 1e6;
  CHECK(replay_makespan(iteration_graph(problem, plan)) == Approx(seconds).epsilon(1e-9));
  const cost::IterationModel model(problem, 8);
  CHECK(cost::IterationEstimator(model).estimate_pipelines(plan).pipelines_s ==
        Approx(seconds).epsilon(1e-9));
}

// One of two groups is on a host, the other on two: both are counted.
TEST_CASE("the slowest expert-parallel group of a stage determines its time") {
  Topology topology = hosts_with(4, 2, link_of(0, 1e6), link_of(0, 1e5));
  Problem problem = dispatch_problem(topology, 4, ExpertDispatch::hierarchical);
  problem.job.execution.stage_data = 8;
  problem.job.training.global_batch = problem.job.execution.micro_batch = 64;
  Plan plan = staged_plan(problem.job, 1, 1, 8, 1);
  Topology& changed = problem.topology.edit();
  for (int i = 0; i < 4; ++i) changed.devices[at(i)].host = 0;
  // A token visits one of 4 devices with probability 1 − (6 · 5) ÷ (8 · 7) = 13 ÷ 28.
  const double within = 13.0 / 28 * 4096 / 2 / 1e6, across = 11.0 / 14 * 4096 / 2 / 1e5 + 2 * within;
  const cost::IterationModel model(problem, 8);
  CHECK(cost::IterationEstimator(model).estimate_pipelines(plan).pipelines_s ==
        Approx(8 * std::max(within, across)).epsilon(1e-9));
  CHECK(replay_makespan(iteration_graph(problem, plan)) ==
        Approx(8 * std::max(within, across)).epsilon(1e-9));
}

// Half of the forward FLOPs are visits of routed experts. On the busiest device they are 1.5 times as many,
// and so are the bytes it sends and what it keeps of them (40 of 100 bytes).
TEST_CASE("the busiest device with experts determines times and memory") {
  const int e = 4, b = 16;
  const auto problem_of = [&](int expert, double imbalance) {
    Job job = expert_job(1, e, expert, b);
    Layer& layer = std::get<LayerChain>(job.model).layers.front();
    layer.routed = Flops(0.5e12);
    layer.mlp_memory = layer.routed_memory = Bytes(40);
    job.execution.expert_imbalance = imbalance;
    job.execution.gradient_sync = GradientSync::none;
    return Problem{hosts_with(1, e, link_of(0, 1e6), fast), job, {}};
  };
  const Problem problem = problem_of(e, 1.5);
  const Plan plan = staged_plan(problem.job, 1, 1, e, 1);
  const double seconds = 1.25 * b * 3.0 / e + 4 * 1.5 * 4e6 * b / (e * e) / 1e6;
  CHECK(replay_makespan(iteration_graph(problem, plan)) == Approx(seconds).epsilon(1e-9));
  const cost::IterationModel model(problem, e);
  CHECK(cost::IterationEstimator(model).estimate_pipelines(plan).pipelines_s ==
        Approx(seconds).epsilon(1e-9));
  CHECK(LoadModel(problem, plan).of(plan.pipelines[0].stages[0]).activation_bytes == 120.0 * b / e);
  CHECK(cost::StageCosts(problem, e).needs({0, 1}, 1).per_micro_batch == Approx(120.0 * b / e));
  // Recomputed MLPs are those of the busiest device: 0.5 of 1 s, in which visits are half as many again.
  Problem repeated = problem_of(e, 1.5);
  std::get<LayerChain>(repeated.job.model).layers.front().mlps = Flops(0.5e12);
  repeated.job.execution.recomputation = Recomputation::mlp;
  CHECK(replay_makespan(iteration_graph(repeated, staged_plan(repeated.job, 1, 1, e, 1))) ==
        Approx((3.75 + 0.75) * b / e + 6 * 1.5 * 4e6 * b / (e * e) / 1e6).epsilon(1e-9));
  // A device with all experts has all of their visits.
  const Problem undivided = problem_of(1, 1.5), balanced = problem_of(1, 1);
  CHECK(replay_makespan(iteration_graph(undivided, staged_plan(undivided.job, 1, 1, e, 1))) ==
        replay_makespan(iteration_graph(balanced, staged_plan(balanced.job, 1, 1, e, 1))));
}
