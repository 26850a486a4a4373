// Stages whose devices divide sequences: what they pass around a ring, and how much of it attention hides.
#include <algorithm>
#include <vector>

#include "core/base/rng.hpp"
#include "core/plan/communication.hpp"
#include "planner/cost/iteration_time/iteration_time.hpp"
#include "simulator/model/stage_load.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/small_problems.hpp"
#include "tests/support/stage_groups.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

/// A layer of 1 s and 2 s per sequence, half of it in the attention core, with 60 parameters, keys and values
/// of 8e6 bytes, queries and outputs of 24e6.
Job context_job(int layers, int context, int stage_data, int micro_batch) {
  Job job = chain_job(layers, 60, 1e6);
  for (Layer& it : std::get<LayerChain>(job.model).layers) {
    it.attention = Flops(0.5e12);
    it.keys_values = Bytes(8e6);
    it.queries_outputs = Bytes(24e6);
  }
  job.training.global_batch = job.execution.micro_batch = micro_batch;
  job.execution.context = context;
  if (stage_data > 1) job.execution.stage_data = stage_data;
  job.execution.gradient_sync = GradientSync::ring;
  return job;
}

}  // namespace

// Devices 0 to 7: two parts (stage_data) of two groups (context) of two devices (tensor). A micro-batch of
// two sequences has 16e6 bytes of keys and values, a ring 1 ÷ 4 of them; they go around once in the forward,
// and with their gradients in the backward, and once more if attention is recomputed.
TEST_CASE("keys and values go around rings of devices of one tensor rank") {
  for (const Recomputation recomputation : {Recomputation::none, Recomputation::selective}) {
    Job job = context_job(1, 2, 2, 2);
    job.execution.recomputation = recomputation;
    const Plan plan = staged_plan(job, 1, 1, 8, 1);
    std::vector<std::vector<int>> rings;
    for (const Communication& it :
         pipeline_communications(Topology(), LayerBytes(job, job.execution), plan, 0)) {
      if (it.payload != Payload::keys_values) continue;
      CHECK(it.bytes == 4e6);
      const int backward = recomputation == Recomputation::none ? 2 : 3;
      CHECK(it.count == (it.pass == Pass::forward ? 1 : backward));
      if (it.pass == Pass::forward) rings.push_back(it.devices);
    }
    CHECK(rings == std::vector<std::vector<int>>{{0, 2}, {1, 3}, {4, 6}, {5, 7}});
    std::vector<std::vector<int>> copies;
    for (const Communication& it : replica_communications(LayerBytes(job, job.execution), plan))
      copies.push_back(it.devices);
    CHECK(copies == std::vector<std::vector<int>>{{0, 2, 4, 6}, {1, 3, 5, 7}});
  }
}

// L layers, m micro-batches of b sequences on c devices. Of c steps of attention, all but the last hide
// messages of 8e6 b ÷ c bytes: c − 1 in the forward, twice as many in the backward.
TEST_CASE("a ring adds what attention does not hide") {
  for (const double bytes_per_s : {1e5, 3e6, 1e7, 1e9})
    for (const int c : {2, 4, 8}) {
      CAPTURE(bytes_per_s, c);
      const int L = 3, m = 2, b = 2;
      Job job = context_job(L, c, 1, b);
      job.execution.gradient_sync = GradientSync::none;
      const Problem problem{hosts_with(1, c, link_of(0.003, bytes_per_s), link_of(0, 1e18)), job, {}};
      const Plan plan = staged_plan(job, 1, 1, c, m);
      const double sent = (c - 1) * (0.003 + 8e6 * b / c / bytes_per_s),
                   hidden = 0.5 * b / c * (c - 1) / c;  // of the forward; twice as much of the backward
      const double seconds =
          m * L * (3.0 * b / c + std::max(0.0, sent - hidden) + std::max(0.0, 2 * sent - 2 * hidden));
      CHECK(std::abs(replay_makespan(iteration_graph(problem, plan)) / seconds - 1) < 1e-9);
      const cost::IterationModel model(problem, c);
      CHECK(cost::IterationEstimator(model).estimate_pipelines(plan).pipelines_s ==
            Approx(seconds).epsilon(1e-9));
    }
}

// An all-gather sends the messages of a ring, all of them before the attention, the gradients after it. With
// all-to-alls, queries, keys, values and outputs are a message of 32e6 ÷ 4 × b ÷ c² bytes each, to every peer
// at once; recomputed attention repeats those of the forward.
TEST_CASE("attention waits for an all-gather and for all-to-alls") {
  const double bytes_per_s = 1e7;
  for (const Recomputation recomputation : {Recomputation::none, Recomputation::selective})
    for (const ContextExchange exchange : {ContextExchange::all_gather, ContextExchange::all_to_all})
      for (const int c : {2, 4, 8}) {
        CAPTURE(name_of(recomputation), name_of(exchange), c);
        const int L = 3, m = 2, b = 2, repeated = recomputation == Recomputation::none ? 0 : 1;
        Job job = context_job(L, c, 1, b);
        job.execution.recomputation = recomputation;
        job.execution.context_exchange = exchange;
        job.execution.gradient_sync = GradientSync::none;
        const Problem problem{hosts_with(1, c, link_of(0.003, bytes_per_s), link_of(0, 1e18)), job, {}};
        const Plan plan = staged_plan(job, 1, 1, c, m);
        const double gathers = 3 + repeated, all_to_alls = 8 + 4 * repeated;
        const double sent = exchange == ContextExchange::all_gather
                                ? gathers * (c - 1) * (0.003 + 8e6 * b / c / bytes_per_s)
                                : all_to_alls * (0.003 + 8e6 * b / (c * c) / bytes_per_s);
        const double seconds = m * L * ((3.0 + 0.5 * repeated) * b / c + sent);
        CHECK(std::abs(replay_makespan(iteration_graph(problem, plan)) / seconds - 1) < 1e-9);
        const cost::IterationModel model(problem, c);
        CHECK(cost::IterationEstimator(model).estimate_pipelines(plan).pipelines_s ==
              Approx(seconds).epsilon(1e-9));
      }
}

TEST_CASE("context_exchange all-to-all requires heads to be a multiple of the devices") {
  Job job;
  job.model = Transformer{.layers = 2, .hidden = 64, .heads = 8, .sequence = 64, .kv_heads = 4};
  job.execution.context_exchange = ContextExchange::all_to_all;
  job.parallelism.tensor = 2;
  job.execution.context = 2;
  CHECK(mesh_obstacle(job).empty());
  job.execution.context = 4;
  CHECK(mesh_obstacle(job) ==
        "4 key-value heads are not a multiple of tensor 2 × context 4, as context_exchange all-to-all "
        "requires");
  job.execution.context_exchange = ContextExchange::ring;
  CHECK(mesh_obstacle(job).empty());
}

TEST_CASE("devices of a context-parallel stage hold whole weights and parts of activations") {
  const Job job = context_job(2, 4, 1, 1);
  const Problem problem{hosts_with(1, 4, link_of(0, 1e18), link_of(0, 1e18)), job, {}};
  const Plan plan = staged_plan(job, 1, 1, 4, 1);
  const StageLoad load = LoadModel(problem, plan).of(plan.pipelines[0].stages[0]);
  const cost::StageNeeds needs = cost::StageCosts(problem, 4).needs({0, 2}, 1);
  CHECK(load.state_bytes == 2 * 60 * 16);
  CHECK(load.activation_bytes == 2 * 100 / 4.0);
  CHECK(needs.state == load.state_bytes);
  CHECK(needs.per_micro_batch == Approx(load.activation_bytes));
}

TEST_CASE("estimates of context parallelism equal simulations") {
  Rng rng = Rng::for_task(8, 0);
  const auto below = [&](int n) { return static_cast<int>(rng.below(static_cast<std::uint32_t>(n))); };
  for (int number = 0; number < 40; ++number) {
    const int tensor = 1 << below(2), context = 2 << below(2), data = 1 << below(2),
              devices = tensor * context * data, stages = 1 + below(3), replicas = 1 + below(2);
    CAPTURE(number, tensor, context, data, stages, replicas);
    Job job = context_job(6, context, data, 4);
    job.execution.schedule = below(2) == 0 ? Schedule::gpipe : Schedule::one_f_one_b;
    job.execution.recomputation = below(2) == 0 ? Recomputation::selective : Recomputation::full;
    job.execution.context_exchange = context_exchange_table()[at(below(3))].kind;
    job.execution.overlap = below(3) == 0;
    if (below(2) == 0) job.execution.optimizer_sharding = OptimizerSharding::zero1;
    const Problem problem{
        hosts_with(stages * replicas, devices, link_of(1e-4, 1e6 * (1 << below(8))), link_of(1e-3, 1e8)),
        job,
        {}};
    const Plan plan = staged_plan(job, stages, replicas, devices, 3);
    const cost::IterationModel model(problem, devices);
    CHECK(replay_makespan(iteration_graph(problem, plan)) ==
          Approx(cost::estimate_iteration(model, plan).iteration_s).epsilon(0.02));
  }
}
