// The proof that no plan fits in memory: worked examples, and no plan that fits is ruled out.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

#include "core/base/range_max.hpp"
#include "planner/cost/bounds/memory_bound.hpp"
#include "planner/cost/iteration_time/iteration_time.hpp"
#include "tests/support/arbitrary_plan.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/repetitions.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::cost;

namespace {

std::vector<int> all_devices(const Topology& topology) {
  std::vector<int> devices(at(topology.size()));
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

MemoryNeed need_of(const Problem& problem, const PlanLimits& limits = {}) {
  const MemorySupply supply(problem.topology, all_devices(problem.topology),
                            problem.constants.process_memory_bytes);
  return memory_need({problem.job}, supply, limits);
}

/// Two devices of `bytes` each. A layer of the job has 10 parameters of 16 B and keeps 100 B of a
/// micro-batch.
Problem two_devices(double bytes) {
  Problem problem{flat_topology({2}, link_of(0.01, 100), link_of(0.1, 25)), chain_job(4, 10, 100), {}};
  problem.topology.edit().gpus[0].memory = Bytes(bytes);
  problem.job.training.global_batch = 2;
  return problem;
}

/// Sets the memory of every GPU model to what the plan needs of it, so that the plan just fits.
void fit_memory(const IterationModel& model, const Plan& plan, Topology& topology) {
  for (Gpu& gpu : topology.gpus) gpu.memory = Bytes(0);
  for (const DeviceMemory& it : device_memory(model, plan)) {
    Gpu& gpu = topology.gpus[at(topology.devices[at(it.device)].gpu)];
    gpu.memory = Bytes(std::max(gpu.memory.value(), it.needed));
  }
}

}  // namespace

TEST_CASE("the memory of all devices must hold the state of all layers and one micro-batch") {
  // 4 × (160 + 100) = 1,040 B on both devices.
  CHECK_FALSE(need_of(two_devices(520)).is_short());
  const MemoryNeed need = need_of(two_devices(519));
  CHECK(need.is_short());
  CHECK(need.kind == MemoryNeed::Kind::sum);
  CHECK(need.needed_bytes == 1040);
  CHECK(need.state_bytes == 640);
  CHECK(need.available_bytes == 1038);
  CHECK(need.devices == 2);
  CHECK(need.parameters == 40);
  CHECK(need.state_bytes_per_parameter == 16);
}

TEST_CASE("limits on stages and replicas, and what a process takes, leave less memory") {
  CHECK(need_of(two_devices(1039), {1, 2}).is_short());
  CHECK_FALSE(need_of(two_devices(1040), {1, 2}).is_short());
  CHECK(need_of(two_devices(1039), {1, {}}).is_short());
  CHECK(need_of(two_devices(1039), {{}, 2}).is_short());
  Problem problem = two_devices(530);
  problem.constants.process_memory_bytes = 10;
  CHECK_FALSE(need_of(problem).is_short());
  problem.constants.process_memory_bytes = 11;
  CHECK(need_of(problem).is_short());
}

TEST_CASE("replicas share the state that the optimizer sharding partitions") {
  // With zero1, a replica holds 4 of 16 B per parameter whole: 2 × (4 · 40 + 4 · 100) + 12 · 40 = 1,600 B.
  Problem problem = two_devices(800);
  problem.job.execution.optimizer_sharding = OptimizerSharding::zero1;
  problem.job.execution.gradient_sync = GradientSync::ring;
  CHECK_FALSE(need_of(problem, {{}, 2}).is_short());
  problem.topology.edit().gpus[0].memory = Bytes(799);
  CHECK(need_of(problem, {{}, 2}).is_short());
}

TEST_CASE("some device must hold the largest layer") {
  Problem problem = two_devices(1699);
  auto& layers = std::get<LayerChain>(problem.job.model).layers;
  layers[2].parameters = 100;  // 1,600 B and 100 B of activations
  const MemoryNeed need = need_of(problem);
  CHECK(need.is_short());
  CHECK(need.kind == MemoryNeed::Kind::layer);
  CHECK(need.layer == 2);
  CHECK(need.needed_bytes == 1700);
  CHECK(need.available_bytes == 1699);
  CHECK(need.devices == 1);
  // One larger device is enough.
  Topology& topology = problem.topology.edit();
  topology.gpus.push_back(topology.gpus[0]);
  topology.gpus[1].memory = Bytes(1700);
  topology.devices[1].gpu = 1;
  CHECK_FALSE(need_of(problem).is_short());
}

TEST_CASE("too few devices for a stage are no shortage of memory") {
  Problem problem = two_devices(1);
  problem.job.parallelism.tensor = 4;
  CHECK_FALSE(need_of(problem).is_short());
  CHECK(std::isinf(need_of(problem).ratio()));
}

TEST_CASE("no plan that fits in memory is ruled out") {
  int tight = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(17, seed);
    Problem problem{random_topology(rng, 2 + static_cast<int>(rng.below(8)), false),
                    random_chain_job(rng, 2 + static_cast<int>(rng.below(10))),
                    {}};
    problem.constants.process_memory_bytes = rng.below(2) * 1e9;
    set_training(rng, problem.job);
    if (rng.below(2) == 0) tie_last_layer(problem.job);
    if (rng.below(3) == 0 && !traits(problem.job.execution.schedule).has_chunks) {
      problem.job.execution.optimizer_sharding = OptimizerSharding::zero1;
      problem.job.execution.gradient_sync = GradientSync::ring;
    }
    if (problem.job.execution.recomputation == Recomputation::full && rng.below(2) == 0)
      problem.job.execution.recompute_layers = 1 + static_cast<int>(rng.below(3));
    Plan plan = arbitrary_plan(rng, problem, 1);
    for (Pipeline& it : plan.pipelines)
      if (it.micro_batches == 0) it.micro_batches = static_cast<int>(it.stages.size());
    problem.job.training.global_batch =
        static_cast<int>(total_micro_batches(plan)) * problem.job.execution.micro_batch;
    fit_memory(IterationModel(problem), plan, problem.topology.edit());
    const PlanLimits limits{depth(plan), static_cast<int>(plan.pipelines.size())};
    const double ratio = need_of(problem, limits).ratio();
    CHECK(ratio <= 1 + 1e-9);
    CHECK(need_of(problem).ratio() <= ratio * (1 + 1e-9));
    tight += ratio > 0.8 ? 1 : 0;
  }
  CHECK(tight > 40);
}

TEST_CASE("the largest of consecutive values is found for every range") {
  std::vector<double> values = {3, 1, 4, 1, 5, 9, 2, 6};
  const RangeMax max(values);
  CHECK(max.size() == values.size());
  for (std::size_t begin = 0; begin <= values.size(); ++begin) {
    CHECK(max.of(begin, begin) == 0);
    for (std::size_t end = begin + 1; end <= values.size(); ++end)
      CHECK(max.of(begin, end) == *std::max_element(values.begin() + static_cast<long>(begin),
                                                    values.begin() + static_cast<long>(end)));
  }
}
