#include "planner/cost/iteration_time/stage_cost.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "core/plan/compression.hpp"
#include "core/base/rng.hpp"
#include "planner/cost/iteration_time/iteration_time.hpp"
#include "simulator/model/stage_load.hpp"
#include "simulator/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::cost;
using namespace dtfm::sim;

namespace {

template <std::size_t n, class T = std::string>
T pick_one(Rng& rng, const std::array<T, n>& values) {
  return values[rng.below(n)];
}

template <class Row>
auto pick_kind(Rng& rng, std::span<const Row> table) {
  return table[rng.below(static_cast<std::uint32_t>(table.size()))].kind;
}

int random_int(Rng& rng, int least, int most) {
  return least + static_cast<int>(rng.below(static_cast<std::uint32_t>(most - least + 1)));
}

LayerChain random_chain(Rng& rng) {
  LayerChain chain{1, std::vector<Layer>(at(random_int(rng, 2, 12)))};
  for (std::size_t i = 0; i < chain.layers.size(); ++i) {
    Layer& layer = chain.layers[i];
    layer.name = "layer";
    layer.parameters = 1e6 * rng.uniform();
    if (i > 0 && rng.below(4) == 0) layer.tied_parameters = layer.parameters * rng.uniform();
    layer.forward = Flops(1e12 * rng.uniform());
    layer.attention = layer.forward * 0.25;
    layer.backward = Flops(1e12 * rng.uniform());
    layer.output = Bytes(1e6 * rng.uniform());
    layer.activation_memory = Bytes(1e7 * rng.uniform());
    layer.attention_memory = layer.activation_memory * rng.uniform();
  }
  return chain;
}

Job random_job(Rng& rng) {
  Job job;
  if (rng.below(2) == 0)
    job.model = Transformer{random_int(rng, 4, 12), 64, 4, 32, 100};
  else
    job.model = random_chain(rng);
  job.execution.micro_batch = random_int(rng, 1, 4);
  job.training.global_batch = 16 * job.execution.micro_batch;
  job.execution.recomputation = pick_kind(rng, recomputation_table());
  job.training.optimizer = pick_kind(rng, optimizer_table());
  job.training.precision = rng.below(2) == 0 ? Precision::fp16 : Precision::fp32;
  job.execution.schedule =
      pick_one<3, Schedule>(rng, {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved});
  if (job.execution.schedule == Schedule::interleaved) job.execution.chunks = 2;
  job.execution.compression.activations = rng.below(2) == 0 ? 1 : 0.25;
  job.execution.compression.gradients = rng.below(2) == 0 ? 1 : 0.5;
  const CompressionPreset presets[] = {{CompressionMethod::quantize_8_bit},
                                       {CompressionMethod::quantize_4_bit},
                                       {CompressionMethod::top_k, 2}};
  if (rng.below(3) == 0) compress_activations(job, presets[rng.below(2)]);
  if (rng.below(3) == 0) compress_gradients(job, presets[rng.below(3)]);
  if (rng.below(2) == 0) job.execution.compression.throughput = BitsPerSecond(1e9);
  if (job.execution.recomputation == Recomputation::full && rng.below(2) == 0)
    job.execution.recompute_layers = random_int(rng, 0, 4);
  return job;
}

/// Returns eight devices of two kinds of GPU and two speeds.
Topology mixed_topology() {
  Topology topology = flat_topology({8}, link_of(1e-3, 1e9), link_of(1e-3, 1e9));
  topology.gpus.push_back(topology.gpus.front());
  topology.gpus[1].peak = topology.gpus[1].peak_fp32 = FlopsPerSecond(3e12);
  for (Gpu& gpu : topology.gpus) gpu.memory_bandwidth = BitsPerSecond(8e9);
  topology.gpus[0].host_link = BitsPerSecond(8e6);
  topology.gpus[1].host_link = BitsPerSecond(2e6);
  for (const int device : {2, 3, 6}) topology.devices[at(device)].gpu = 1;
  for (const int device : {3, 5}) topology.devices[at(device)].speed = 0.5;
  return topology;
}

Problem random_problem(Rng& rng) {
  return {mixed_topology(),
          random_job(rng),
          {1.5, 1e-3, 0.9, 0.5},
          uniform_roofline({.compute = 1.2,
                            .attention = 1.2,
                            .memory_forward = 1.1,
                            .memory_backward = 2.5,
                            .memory_head = 1.1,
                            .launch_s = 1e-3})};
}

std::vector<int> random_devices(Rng& rng, int count) {
  std::vector<int> devices = {0, 1, 2, 3, 4, 5, 6, 7};
  rng.shuffle(std::span<int>(devices));
  devices.resize(at(count));
  return devices;
}

}  // namespace

TEST_CASE("times and bytes and memory of a stage equal those of the simulator") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(1, seed);
    Problem problem = random_problem(rng);
    problem.constants.process_memory_bytes = 1e9 * rng.below(3);
    problem.job.parallelism.sequence_parallel = rng.below(2) == 0;
    problem.job.parallelism.scatter_gather = !problem.job.parallelism.sequence_parallel && rng.below(2) == 0;
    const int tensor = 1 << rng.below(3);
    const StageCosts costs(problem, tensor);
    const int begin = random_int(rng, 0, costs.layers() - 1);
    const Stage stage{{begin, random_int(rng, begin, costs.layers())}, random_devices(rng, tensor)};
    const Plan plan{1, problem.job.execution, {{1, {stage}}}};
    const LoadModel model(problem, plan);
    const StageLoad load = model.of(stage);

    // All layers run on the slowest device; the simulator takes the slowest device for every layer.
    if (tensor == 1) {
      const ComputeTime time =
          costs.compute(costs.kind_of(stage.devices.front()), stage.layers, costs.recomputed(stage.layers));
      CHECK(time.forward_s == Approx(load.forward_s));
      CHECK(time.backward_s == Approx(load.backward_s));
      CHECK(time.update_s == Approx(load.update_s));
    }
    CHECK(costs.boundary_bytes(stage.layers.second, false) == Approx(load.output_bytes));
    CHECK(costs.boundary_bytes(stage.layers.second) ==
          Approx(model.compressed_activations(load.output_bytes)));
    CHECK(costs.gradient_bytes(stage.layers, begin == 0) == Approx(load.gradient_bytes));
    CHECK(costs.saved_bytes(stage.layers) == Approx(load.weight_bytes));
    const StageNeeds needs = costs.needs(stage.layers, 1);
    CHECK(needs.state == Approx(load.state_bytes));
    CHECK(needs.per_micro_batch == Approx(load.activation_bytes));
    CHECK(needs.working == Approx(load.working_bytes));
  }
}

TEST_CASE("devices with equal GPU and speed are of one kind") {
  const Problem problem{mixed_topology(), chain_job(2, 0, 0), {}};
  const StageCosts costs(problem, 1);
  CHECK(costs.kinds() == 4);
  CHECK(costs.kind_of(0) == costs.kind_of(7));
  CHECK(costs.kind_of(2) == costs.kind_of(6));
  CHECK(costs.kind_of(3) != costs.kind_of(2));
  CHECK(costs.kind_of(5) != costs.kind_of(4));
}

TEST_CASE("unknown times have a reason") {
  Problem problem{mixed_topology(), chain_job(2, 0, 0), {}};
  problem.topology.edit().devices[4].gpu = -1;
  const StageCosts costs(problem, 1);
  CHECK(costs.unknown(0).empty());
  CHECK(costs.unknown(4) == "the speed of device s0/4 is unknown: it has no `gpu` in the topology");
}

// At 8e9 bits per second, 1e6 bytes of activations take 1 ms, as do those of gradients.
TEST_CASE("compression takes as long as its throughput implies") {
  Problem problem{mixed_topology(), chain_job(2, 1e6, 1e6), {}};
  problem.job.execution.compression = {0.25, 0.5, BitsPerSecond(8e9)};
  const StageCosts costs(problem, 1);
  CHECK(costs.boundary_bytes(1) == Approx(0.25e6));
  CHECK(costs.compression_s(1) == Approx(1e-3));
  CHECK(costs.gradient_bytes({0, 1}, false) == Approx(2e6 / 2));
  CHECK(costs.gradient_compression_s(0.5e6) == Approx(1e-3));
  problem.job.execution.compression = {1, 1, BitsPerSecond(8e9)};
  const StageCosts plain(problem, 1);
  CHECK(plain.compression_s(1) == 0);
  CHECK(plain.gradient_compression_s(1e6) == 0);
}

// Two layers of 1e6 bytes on 4 devices: two all-reduces per layer, each of 6 messages of a quarter.
TEST_CASE("a stage has the all-reduces of its layers") {
  Problem problem{mixed_topology(), chain_job(2, 0, 1e6), {}};
  const auto forward = StageCosts(problem, 4).exchanged(Exchange::all_reduce, {0, 2}, false);
  CHECK(forward.messages == 2 * 2 * 6);
  CHECK(forward.bytes == Approx(2 * 2 * 6 * 0.25e6));
  CHECK(StageCosts(problem, 4).exchanged(Exchange::all_reduce, {0, 2}, true).bytes == Approx(forward.bytes));
  problem.job.execution.recomputation = Recomputation::full;
  CHECK(StageCosts(problem, 4).exchanged(Exchange::all_reduce, {0, 2}, true).bytes ==
        Approx(2 * forward.bytes));
}

// Layers of 1 s and 2 s on one device. The two that are recomputed take 1 s more, and keep an input of 40
// bytes instead of 100; the others take no more, and the device holds one output until its gradient arrives.
// The two halves of an interleaved device have one recomputed layer each.
TEST_CASE("recompute_layers recomputes only the first layers of a stage") {
  Problem problem{mixed_topology(), chain_job(8, 0, 40), {}};
  problem.job.execution.recomputation = Recomputation::full;
  problem.job.execution.recompute_layers = 2;
  problem.job.execution.schedule = Schedule::one_f_one_b;
  const StageCosts costs(problem, 1);
  CHECK(costs.compute(0, {1, 6}).forward_s == Approx(5));
  CHECK(costs.compute(0, {1, 6}).backward_s == Approx(5 * 2 + 2));
  CHECK(costs.needs({1, 6}, 1).per_micro_batch == 2 * 40 + 3 * 100 + 40);
  CHECK(costs.needs({1, 6}, 1).working == 100);
  CHECK(costs.compute(0, {3, 4}).backward_s == Approx(3));
  CHECK(costs.compute(0, {3, 4}, costs.min_recomputed({3, 4})).backward_s == Approx(2));
  CHECK(costs.compute(0, {1, 7}, costs.recomputed({1, 7}, 2)).backward_s == Approx(6 * 2 + 4));

  // Each layer has two all-reduces of 6 messages in the backward, and two more if it is recomputed.
  CHECK(StageCosts(problem, 4).exchanged(Exchange::all_reduce, {1, 6}, false).messages == 5 * 2 * 6);
  CHECK(StageCosts(problem, 4).exchanged(Exchange::all_reduce, {1, 6}, true).messages == (5 + 2) * 2 * 6);
}

TEST_CASE("no recomputed layers are recompute none, and all of them recompute full") {
  Problem problem{mixed_topology(), chain_job(8, 0, 40), {}};
  const auto same = [&](const StageCosts& a, const StageCosts& b) {
    CHECK(a.compute(0, {2, 6}).backward_s == b.compute(0, {2, 6}).backward_s);
    CHECK(a.needs({2, 6}, 1).per_micro_batch == b.needs({2, 6}, 1).per_micro_batch);
    CHECK(a.needs({2, 6}, 1).working == b.needs({2, 6}, 1).working);
    for (const Exchange kind : exchange_kinds)
      CHECK(a.exchanged(kind, {2, 6}, true).bytes == b.exchanged(kind, {2, 6}, true).bytes);
  };
  const StageCosts none(problem, 2);
  problem.job.execution.recomputation = Recomputation::full;
  const StageCosts full(problem, 2);
  problem.job.execution.recompute_layers = 0;
  same(StageCosts(problem, 2), none);
  for (const int layers : {4, 7}) {
    problem.job.execution.recompute_layers = layers;
    same(StageCosts(problem, 2), full);
  }
}

// Two pipelines with up to four devices.
TEST_CASE("memory needs of a plan equal the simulator's peaks") {
  int compared = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(2, seed);
    Problem problem = random_problem(rng);
    for (Gpu& gpu : problem.topology.edit().gpus) gpu.memory = Bytes(1);  // so that all deficits are reported
    const bool interleaved = problem.job.execution.schedule == Schedule::interleaved;
    const int layers = layer_count(problem.job.model);
    const int stages = random_int(rng, 1, std::min(4, interleaved ? layers / 2 : layers));
    if (rng.below(3) == 0) problem.job.execution.flush = stages;
    Plan plan = plan_of(problem.job, stages, 2, stages * random_int(rng, 1, 3));
    if (traits(problem.job.execution.recomputation).is_per_stage())
      for (Pipeline& pipeline : plan.pipelines)
        for (Stage& stage : pipeline.stages)
          stage.recompute_layers = random_int(rng, 0, stage.layers.second - stage.layers.first);
    const IterationModel model(problem);
    SimOptions options;
    options.iterations = 1;
    const SimReport report = simulate(problem, plan, {}, options);
    const std::vector<DeviceMemory> memory = device_memory(model, plan);
    REQUIRE(memory.size() == report.devices.size());
    double deficit_bytes = 0;
    for (const DeviceMemory& it : memory) {
      const auto device = std::find_if(report.devices.begin(), report.devices.end(),
                                       [&](const DeviceReport& other) { return other.device == it.device; });
      REQUIRE(device != report.devices.end());
      CAPTURE(problem.job.execution.schedule, name_of(problem.job.execution.recomputation), it.device);
      CHECK(it.needed == Approx(device->peak_memory_bytes).epsilon(1e-9));
      deficit_bytes += it.needed - it.capacity;
      ++compared;
    }
    CHECK(estimate_iteration(model, plan).deficit_bytes == Approx(deficit_bytes));
  }
  CHECK(compared > 100);
}

TEST_CASE("a device is near its limit if its memory is within the error of predictions") {
  const auto verdict = [](double share) { return DeviceMemory{0, share * 80e9, 80e9, 0, 3.5e9}.verdict(); };
  CHECK(verdict(0.8) == MemoryVerdict::fits);
  CHECK(verdict(0.99 / (1 + memory_error)) == MemoryVerdict::fits);
  CHECK(verdict(1.01 / (1 + memory_error)) == MemoryVerdict::near_limit);
  CHECK(verdict(0.99 * (1 + memory_error)) == MemoryVerdict::near_limit);
  CHECK(verdict(1.01 * (1 + memory_error)) == MemoryVerdict::exceeds);
  CHECK(DeviceMemory{0, 40e9, 80e9, 10e9, 3.5e9}.reserved() == 36.5e9);
}
