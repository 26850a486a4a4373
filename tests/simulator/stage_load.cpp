#include "simulator/model/stage_load.hpp"

#include "core/plan/model_state.hpp"
#include "simulator/report/stage_memory.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

/// h = 8, s = 16, a = 2, V = 100. A block has 12 · 64 + 13 · 8 = 872 parameters; forward 24 · 16 · 64 + 4 ·
/// 256 · 8 = 24,576 + 8,192 = 32,768 FLOPs; 34 · 128 = 4,352 bytes of activations and 5 · 2 · 256 = 2,560 of
/// the attention core; output 16 · 8 · 2 = 256 bytes.
Job tiny_transformer(Recomputation recomputation) {
  Job job;
  job.model = Transformer{4, 8, 2, 16, 100};
  job.training.global_batch = 6;
  job.execution.micro_batch = 2;
  job.execution.recomputation = recomputation;
  job.execution.schedule = Schedule::one_f_one_b;
  return job;
}

Topology two_devices() {
  return flat_topology({2}, link_of(0, 1e9), link_of(0, 1e9));
}

StageLoad stage_load(const Job& job, const Topology& topology, const Stage& stage,
                     const Calibration& constants = {}) {
  const Problem problem{topology, job, constants};
  return LoadModel(problem, {1, job.execution, {{1, {stage}}}}).of(stage);
}

StageLoad load_of(const Job& job, std::pair<int, int> layers, Calibration constants = {}) {
  return stage_load(job, two_devices(), {layers, {0}}, constants);
}

}  // namespace

TEST_CASE("times are those of the layers scaled and divided by speed") {
  Calibration constants;
  constants.compute_scale = 2;              // at 1 TFLOP/s
  const double block = 2 * 32768 / 0.5e12;  // two sequences
  const StageLoad load = load_of(tiny_transformer(Recomputation::none), {1, 3}, constants);
  CHECK(load.forward_s == Approx(2 * block));
  CHECK(load.backward_s == Approx(4 * block));
  CHECK(load.model_flops == Approx(2 * 2 * 3 * 32768));
  // Full recomputation adds a forward pass, selective recomputation that of the attention core.
  CHECK(load_of(tiny_transformer(Recomputation::full), {1, 3}, constants).backward_s == Approx(6 * block));
  CHECK(load_of(tiny_transformer(Recomputation::selective), {1, 3}, constants).backward_s ==
        Approx(4 * block * (1 + 8192.0 / 65536)));
  // The MLP: 16 · 16 · 64 = 16,384 FLOPs.
  CHECK(load_of(tiny_transformer(Recomputation::mlp), {1, 3}, constants).backward_s ==
        Approx(4 * block * (1 + 16384.0 / 65536)));
  CHECK(load_of(tiny_transformer(Recomputation::full), {1, 3}, constants).model_flops == load.model_flops);
  Calibration launched = constants;
  launched.micro_batch_overhead_s = 0.125;
  CHECK(load_of(tiny_transformer(Recomputation::none), {1, 3}, launched).forward_s ==
        Approx(2 * block + 0.125));
  CHECK(load_of(tiny_transformer(Recomputation::none), {1, 3}, launched).backward_s ==
        Approx(4 * block + 0.125));
  CHECK(load_of(tiny_transformer(Recomputation::none), {1, 3}, launched).overhead_s == 0.125);
  // The head: 2 · 16 · 8 · 100 = 25,600 FLOPs.
  CHECK(load_of(tiny_transformer(Recomputation::none), {3, 4}, constants).forward_s ==
        Approx(2 * (32768 + 25600) / 0.5e12));

  Topology slow = two_devices();
  slow.devices[0].speed = 0.25;
  CHECK(stage_load(tiny_transformer(Recomputation::none), slow, {{1, 3}, {0}}, constants).forward_s ==
        Approx(8 * block));
  Job job = tiny_transformer(Recomputation::none);
  job.efficiency = 0.1;
  CHECK(load_of(job, {1, 3}, constants).forward_s == Approx(10 * 2 * block));
}

// 96 b s h² (1 + s / 6h) for a layer with full recomputation (Narayanan et al.), 962.1 GFLOP for GPT-3 XL; 24
// layers at batch 1,024 give the published 23.64 PFLOP.
TEST_CASE("a layer of GPT-3 XL has the published FLOPs") {
  Job job = tiny_transformer(Recomputation::full);
  job.model = Transformer{24, 2048, 16, 2048, 50257};
  job.execution.micro_batch = 1;
  // 96 L b s h² (1 + s / 6h + V / 16 L h) for the model, whose head is not recomputed.
  const double h = 2048, s = 2048, v = 50257, layers = 24;
  const StageLoad model = load_of(job, {0, 24});
  CHECK((model.forward_s + model.backward_s) * 1e12 ==
        Approx(96 * layers * s * h * h * (1 + s / (6 * h) + v / (16 * layers * h))).epsilon(1e-12));
  const StageLoad load = load_of(job, {4, 5});
  CHECK((load.forward_s + load.backward_s) * 1e12 == Approx(962.1e9).epsilon(1e-4));
  CHECK(24 * 1024 * (load.forward_s + load.backward_s) * 1e12 == Approx(23.64e15).epsilon(1e-3));
  CHECK(load.output_bytes == 8 * 1048576);
}

TEST_CASE("a process takes memory whatever its layers") {
  Problem problem{flat_topology({1}, {}, {}), tiny_transformer(Recomputation::full), {}};
  const Plan plan = plan_of(problem.job, 1, 1, 1);
  const double without = required_memory(problem, plan).front();
  problem.constants.process_memory_bytes = 3e9;
  CHECK(required_memory(problem, plan).front() == without + 3e9);
}

// 3 experts of width 10, of which a token visits 2; gated; a shared one of width 6. Per token of 16, in fp16:
// logits and scores 8 · 3; per visit the input 2 · 8, gate, other factor and product 3 · 2 · 10; of the
// shared one 3 · 2 · 6, and its input, which is that of the layer. FLOPs per token: router 2 · 8 · 3, experts
// 2 visits · 2 · 3 · 8 · 10, shared 2 · 3 · 8 · 6.
TEST_CASE("recomputed experts keep only the input of their layer") {
  const auto load = [](Recomputation recomputation) {
    Job job = tiny_transformer(recomputation);
    auto& model = std::get<Transformer>(job.model);
    model.gated = true;
    model.experts = {.count = 3, .per_token = 2, .width = 10, .shared_width = 6};
    return load_of(job, {1, 3});
  };
  const StageLoad none = load(Recomputation::none), mlp = load(Recomputation::mlp),
                  outputs = load(Recomputation::moe_act);
  const double kept = 16 * (24 + 2 * (16 + 60) + 36), flops = 16 * (48 + 2 * 480 + 288);
  CHECK(none.activation_bytes - mlp.activation_bytes == 2 * 2 * kept);
  // Gradients of the same size exist in the backward pass, also if that is recomputed.
  CHECK(none.working_bytes == 2 * kept);
  CHECK(mlp.working_bytes == 2 * 2 * kept);
  CHECK(mlp.backward_s - none.backward_s == Approx(2 * 2 * flops / 1e12));
  CHECK(none.activation_bytes - outputs.activation_bytes == 2 * 2 * 16 * 2 * 2 * 10);
  CHECK(outputs.working_bytes == 2 * (16 * 2 * 2 * 10 + kept));
  CHECK(outputs.backward_s == none.backward_s);
}

TEST_CASE("recompute_layers 0 loads a stage like recompute none, all layers like full") {
  const auto same = [](int layers, Recomputation like) {
    Job job = tiny_transformer(Recomputation::full);
    job.execution.recompute_layers = layers;
    const StageLoad load = load_of(job, {0, 3}), other = load_of(tiny_transformer(like), {0, 3});
    CHECK(load.backward_s == other.backward_s);
    CHECK(load.activation_bytes == other.activation_bytes);
    CHECK(load.working_bytes == other.working_bytes);
  };
  same(0, Recomputation::none);
  same(3, Recomputation::full);
  same(4, Recomputation::full);
}

TEST_CASE("activation memory is what recomputation leaves") {
  // Two blocks of two sequences; the output is stored, too: 2 · 256.
  CHECK(load_of(tiny_transformer(Recomputation::none), {1, 3}).activation_bytes ==
        2 * (2 * (4352 + 2560) + 256));
  CHECK(load_of(tiny_transformer(Recomputation::selective), {1, 3}).activation_bytes == 2 * (2 * 4352 + 256));
  // The MLP keeps input and output of its activation function, 2 · 4 · 128 · 2 bytes.
  CHECK(load_of(tiny_transformer(Recomputation::mlp), {1, 3}).activation_bytes ==
        2 * (2 * (4352 + 2560 - 2048) + 256));
  // The gradients of its activations take as much, whatever is recomputed.
  CHECK(load_of(tiny_transformer(Recomputation::mlp), {1, 3}).working_bytes == 2 * (2048 + 2048));
  CHECK(load_of(tiny_transformer(Recomputation::full), {1, 3}).activation_bytes == 2 * (2 * 256 + 256));
  CHECK(load_of(tiny_transformer(Recomputation::full), {1, 3}).working_bytes == 2 * (4352 + 2560 + 2048));
  CHECK(load_of(tiny_transformer(Recomputation::none), {1, 3}).working_bytes == 2 * 2048);
  // Only the first of the blocks keeps nothing but its input.
  Job first = tiny_transformer(Recomputation::full);
  first.execution.recompute_layers = 1;
  CHECK(load_of(first, {1, 3}).activation_bytes == 2 * (256 + (4352 + 2560) + 256));
  CHECK(load_of(first, {1, 3}).working_bytes == 2 * (4352 + 2560 + 2048));
  CHECK(load_of(first, {1, 3}).backward_s == Approx((2 * 2 + 1) * 2 * 32768 / 1e12));
  // The attention core of one layer exists again while it is recomputed.
  CHECK(load_of(tiny_transformer(Recomputation::selective), {1, 3}).working_bytes == 2 * (2560 + 2048));
  // The last layer has 4 · 16 · 8 + 4 · 16 · 100 bytes of the head, too.
  CHECK(load_of(tiny_transformer(Recomputation::full), {2, 4}).working_bytes ==
        2 * (4352 + 2560 + 512 + 6400 + 2048));
  // fp32 numbers are twice as large; dropout masks (2 · 128 and 2 · 256 bytes per block) are not.
  Job job = tiny_transformer(Recomputation::none);
  job.training.precision = Precision::fp32;
  CHECK(load_of(job, {1, 3}).activation_bytes == 2 * (2 * (2 * (4352 + 2560) - 256 - 512) + 2 * 256));
}

// Yuan et al. print the memory of a V100 with three layers of GPT-3 XL. Weights and gradients in fp32 and
// fp16, 592 + 592 + 296 + 296 MB, are 1.73 GB if a GB has 1,024 of them; 8 MB are one message of 2048²
// numbers of 2 bytes, so a MB is 2^20. The first stage has 2.39 GB: 0.66 GB more, which at 12 bytes are
// 28,800 rows of 2048. This is not the vocabulary of GPT (50,257), but BERT's cased one (28,996), which fits
// their data set (QQP). Buffers of 96 micro-batches, activations and gradients, input and output: 3 GB, or
// 1.5 GB at both ends.
TEST_CASE("the memory of a stage matches the measurement on a V100") {
  constexpr double gib = 1024.0 * 1024 * 1024, buffer = 8 * 1048576;
  Job job = tiny_transformer(Recomputation::full);
  job.model = Transformer{24, 2048, 16, 2048, 28996};
  job.execution.micro_batch = 1;
  job.training.optimizer = Optimizer::sgd_12;
  job.execution.schedule = Schedule::gpipe;
  const StageLoad first = load_of(job, {0, 3}), middle = load_of(job, {3, 6}), last = load_of(job, {21, 24});
  CHECK(middle.state_bytes == Approx(1.73 * gib).epsilon(0.03));
  CHECK(first.state_bytes == Approx(2.39 * gib).epsilon(0.03));
  // The input of a stage is also what its first layer stores, but the input of the model is not a buffer. The
  // other layers store their own inputs.
  CHECK(96 * (middle.activation_bytes - 2 * buffer) == Approx(3 * gib).epsilon(0.03));
  CHECK(96 * (first.activation_bytes - 3 * buffer) == Approx(1.5 * gib).epsilon(0.03));
  CHECK(96 * (last.activation_bytes - 2 * buffer) == Approx(1.5 * gib).epsilon(0.03));
}

TEST_CASE("bytes per parameter depend on what the optimizer holds and sends and saves") {
  struct Expected {
    Optimizer optimizer;
    double held, synced_fp16, synced_fp32, saved;
  };
  for (const Expected& e :
       {Expected{Optimizer::adam_16, 16, 2, 4, 12}, Expected{Optimizer::adam_18, 18, 4, 4, 12},
        Expected{Optimizer::adam_20, 20, 2, 4, 12}, Expected{Optimizer::sgd_12, 12, 4, 4, 4},
        Expected{Optimizer::sgd_8, 8, 2, 4, 4}, Expected{Optimizer::host_offload, 4, 2, 4, 4},
        Expected{Optimizer::adam_20_fp32, 20, 4, 4, 12}, Expected{Optimizer::adam_16_fp32, 16, 4, 4, 12}}) {
    CAPTURE(name_of(e.optimizer));
    Job job = tiny_transformer(Recomputation::none);
    job.training.optimizer = e.optimizer;
    job.execution.compression.gradients = 0.5;
    const StageLoad load = load_of(job, {1, 3});
    CHECK(load.state_bytes == 2 * 872 * e.held);
    CHECK(load.weight_bytes == 2 * 872 * e.saved);
    CHECK(load.gradient_bytes == 2 * 872 * e.synced_fp16 / 2);
    job.training.precision = Precision::fp32;
    CHECK(load_of(job, {1, 3}).gradient_bytes == 2 * 872 * e.synced_fp32 / 2);
  }
}

// The first layer has 100 · 8 of the vocabulary and 16 · 8 of positions, the last a copy of the 800 and the 2
// · 8 of the final norm.
TEST_CASE("tied weights have a copy at each end or a single one if both ends are one stage") {
  const Job job = tiny_transformer(Recomputation::none);
  CHECK(load_of(job, {0, 1}).state_bytes == 16 * (872 + 800 + 128));
  CHECK(load_of(job, {3, 4}).state_bytes == 16 * (872 + 800 + 16));
  CHECK(load_of(job, {0, 4}).state_bytes == 16 * (4 * 872 + 800 + 128 + 16));
  CHECK(load_of(job, {0, 4}).gradient_bytes == 2 * (4 * 872 + 800 + 128 + 16));
}

// The head's 816 parameters take 816 s to update here; the 800 that it shares with the embedding take 800 s.
TEST_CASE("tied weights are updated once if both ends are one stage") {
  Job job = tiny_transformer(Recomputation::none);
  LayerProfile profile;
  profile.gpu = "one";
  profile.precision = Precision::fp16;
  profile.rows = {{"embedding", 2, 1, {1}, {1}, Timing{928}, {}, {}},
                  {"block", 2, 1, {1}, {1}, Timing{872}, {}, {}},
                  {"head", 2, 1, {1}, {1}, Timing{816}, {}, {}}};
  job.profiles = {profile};
  CHECK(load_of(job, {3, 4}).update_s == 872 + 816);
  CHECK(load_of(job, {0, 3}).update_s == 3 * 872 + 928);
  CHECK(load_of(job, {0, 4}).update_s == Approx(4 * 872 + 928 + 16));
  std::get<Transformer>(job.model).tied = false;
  CHECK(load_of(job, {0, 4}).update_s == 4 * 872 + 928 + 816);
}

TEST_CASE("messages are compressed") {
  Job job = tiny_transformer(Recomputation::none);
  job.execution.compression.activations = 0.25;
  const Problem problem{two_devices(), job, {}};
  const LoadModel model(problem, Plan{1, job.execution, {{1, {{{1, 3}, {0}}}}}});
  const double output = model.of({{1, 3}, {0}}).output_bytes;
  CHECK(output == 2 * 256);
  CHECK(model.compressed_activations(output) == 2 * 256 * 0.25);
}

TEST_CASE("tensor parallelism divides everything and the slowest device sets the pace") {
  Topology topology = two_devices();
  topology.devices[1].speed = 0.5;
  const Job job = tiny_transformer(Recomputation::full);
  const StageLoad one = load_of(job, {1, 3}), two = stage_load(job, topology, {{1, 3}, {0, 1}});
  CHECK(two.forward_s == Approx(one.forward_s));
  CHECK(two.backward_s == Approx(one.backward_s));
  CHECK(two.output_bytes == one.output_bytes / 2);
  CHECK(two.gradient_bytes == one.gradient_bytes / 2);
  CHECK(two.state_bytes == one.state_bytes / 2);
  CHECK(two.activation_bytes == one.activation_bytes / 2);
}

TEST_CASE("without sequence parallelism tensor parallelism does not divide the inputs of layers") {
  Job job = tiny_transformer(Recomputation::full);
  const StageLoad one = load_of(job, {1, 3}), divided = stage_load(job, two_devices(), {{1, 3}, {0, 1}});
  job.parallelism.sequence_parallel = false;
  const StageLoad two = stage_load(job, two_devices(), {{1, 3}, {0, 1}});
  CHECK(two.activation_bytes == one.activation_bytes);
  CHECK(two.output_bytes == one.output_bytes);
  CHECK(two.state_bytes == divided.state_bytes);
  CHECK(two.working_bytes > divided.working_bytes);
  CHECK(two.working_bytes < one.working_bytes);
  CHECK(load_of(job, {1, 3}).working_bytes == one.working_bytes);
  job.parallelism.scatter_gather = true;
  const StageLoad scattered = stage_load(job, two_devices(), {{1, 3}, {0, 1}});
  CHECK(scattered.output_bytes == divided.output_bytes);
  CHECK(scattered.activation_bytes == two.activation_bytes);
}

TEST_CASE("an unknown compute speed is an error") {
  Topology topology = two_devices();
  topology.gpus[0].peak.reset();
  const Job job = tiny_transformer(Recomputation::none);
  CHECK(error_message([&] {
          stage_load(job, topology, {{0, 1}, {0}});
        }) == "device s0/0: times on GPU one cannot be estimated: its entry in the catalogue has no `peak`");
  topology.devices[0].gpu = -1;
  CHECK(error_message([&] {
          stage_load(job, topology, {{0, 1}, {0}});
        }) == "the speed of device s0/0 is unknown: it has no `gpu` in the topology");
}
