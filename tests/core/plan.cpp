#include "core/plan/plan.hpp"

#include <algorithm>

#include "core/plan/job.hpp"
#include "tests/support/catch.hpp"

using namespace dtfm;

namespace {

/// Returns a job of four blocks with two sequences per micro-batch, small enough to add up by hand.
Job tiny_job() {
  Job job;
  job.name = "tiny";
  job.model = Transformer{4, 8, 2, 16, 100};  // layers, hidden, heads, sequence, vocabulary
  job.training.global_batch = 14;
  job.execution.micro_batch = 2;
  return job;
}

}  // namespace

TEST_CASE("an even split covers all layers in order in parts that differ by at most one") {
  for (int layers = 0; layers <= 40; ++layers) {
    for (int stages = 1; stages <= 12; ++stages) {
      CAPTURE(layers, stages);
      int next = 0, min_layers = layers, max_layers = 0;
      for (int stage = 0; stage < stages; ++stage) {
        const auto [begin, end] = even_split(layers, stages, stage);
        REQUIRE(begin == next);
        REQUIRE(end >= begin);
        min_layers = std::min(min_layers, end - begin);
        max_layers = std::max(max_layers, end - begin);
        next = end;
      }
      REQUIRE(next == layers);
      REQUIRE(max_layers - min_layers <= 1);
    }
  }
  CHECK(even_split(24, 8, 7) == std::pair{21, 24});
  // 2^31 − 1 layers times the stage number would overflow 32 bits: stage 2 of 3 is [2/3 · 2147483647, …) =
  // [1431655764, …).
  CHECK(even_split(2147483647, 3, 2) == std::pair{1431655764, 2147483647});
}

TEST_CASE("a placement returns its devices by stage and by replica") {
  Placement placement(3, 2);
  CHECK(placement.devices() == std::vector<int>(6));
  for (int stage = 0; stage < 3; ++stage)
    for (int replica = 0; replica < 2; ++replica) placement.at(stage, replica) = 10 * stage + replica;
  CHECK(placement.stages() == 3);
  CHECK(placement.replicas() == 2);
  CHECK(placement.devices() == std::vector<int>{0, 1, 10, 11, 20, 21});
  const auto group = placement.group(1);
  CHECK(std::vector<int>(group.begin(), group.end()) == std::vector<int>{10, 11});
  Placement other = placement;
  CHECK(other == placement);
  other.at(2, 1) = 0;
  CHECK(!(other == placement));
  CHECK(placement.at(2, 1) == 21);
}

// 14 sequences in micro-batches of 2 are 7 micro-batches, of which two replicas get 3 and 4. Four layers over
// three stages: 1, 1, 2.
TEST_CASE("a deployed placement has the layers and micro-batches of each pipeline") {
  Job job = tiny_job();
  job.execution.schedule = Schedule::one_f_one_b;
  job.execution.gradient_sync = GradientSync::ring;
  Placement placement(3, 2);
  for (int i = 0; i < 6; ++i) placement.at(i / 2, i % 2) = 5 - i;  // stages 54, 32, 10
  const Plan plan = plan_from_placement(placement, job);
  CHECK(plan.tensor == 1);
  CHECK(plan.execution.schedule == Schedule::one_f_one_b);
  CHECK(plan.execution.gradient_sync == GradientSync::ring);
  REQUIRE(plan.pipelines.size() == 2);
  CHECK(plan.pipelines[0].micro_batches == 3);
  CHECK(plan.pipelines[1].micro_batches == 4);
  const std::vector<std::pair<int, int>> layers = {{0, 1}, {1, 2}, {2, 4}};
  const std::vector<std::vector<int>> devices = {{5, 3, 1}, {4, 2, 0}};  // per pipeline, by stage
  for (std::size_t pipeline = 0; pipeline < 2; ++pipeline) {
    const auto& stages = plan.pipelines[pipeline].stages;
    REQUIRE(stages.size() == 3);
    for (std::size_t stage = 0; stage < 3; ++stage) {
      CHECK(stages[stage].layers == layers[stage]);
      CHECK(stages[stage].devices == std::vector<int>{devices[pipeline][stage]});
    }
  }
}

// A block has 12 · 8² + 13 · 8 = 872 parameters, the vocabulary matrix 100 · 8 = 800, the positions 16 · 8 =
// 128. Two stages of two blocks: 2 · 872 + 800 + 128 = 2672 in the first, 2 · 872 + 800 = 2544 in the last.
// Activations: 14 sequences over 2 replicas, 7 · 16 tokens · 8 hidden = 896 numbers, in fp16 of 2 bytes each.
TEST_CASE("volumes are derived from the model") {
  const CommVolumes volumes = comm_volumes(tiny_job(), 2, 2);
  CHECK(volumes.gradient.value() == 2 * 2672);
  // 14 sequences are 7 micro-batches of 2; the pipeline with more has 4 of them: 8 sequences of 128 numbers.
  CHECK(volumes.activation.value() == 2 * 1024);
}

TEST_CASE("volumes are those of the largest stage") {
  Job job = tiny_job();
  // One stage has everything, with one matrix for both ends, and the final norm: 4 · 872 + 800 + 128 + 16 =
  // 4432.
  CHECK(comm_volumes(job, 1, 1).gradient.value() == 2 * 4432);
  // Stages of 1, 1, 2 blocks: 872 + 928 = 1800, 872, 2 · 872 + 800 + 16 = 2560.
  CHECK(comm_volumes(job, 3, 1).gradient.value() == 2 * 2560);
  // Ten layers over three stages, 3, 3, 4, with a vocabulary of 1: the last has 4 · 872 + 8 + 16 = 3512.
  auto& model = std::get<Transformer>(job.model);
  model.layers = 10;
  model.vocabulary = 1;
  CHECK(comm_volumes(job, 3, 1).gradient.value() == 2 * 3512);
  // Twelve over four, 3 each, with one position and no vocabulary: 3 · 872 + 16 in the last.
  model.layers = 12;
  model.sequence = 1;
  model.vocabulary = 0;
  CHECK(comm_volumes(job, 4, 1).gradient.value() == 2 * 2632);
}

TEST_CASE("volumes depend on precision and compression and the split of the batch") {
  Job job = tiny_job();
  job.training.precision = Precision::fp32;
  job.execution.compression = {0.25, 0.5};  // activations, gradients
  const CommVolumes volumes = comm_volumes(job, 2, 4);
  CHECK(volumes.gradient.value() == 4 * 2672 * 0.5);
  // the larger pipeline has 4 sequences (2 of 7 micro-batches)
  CHECK(volumes.activation.value() == 4 * 512 * 0.25);
  job.training.precision = Precision::bf16;
  CHECK(comm_volumes(job, 2, 4).gradient.value() == 2 * 2672 * 0.5);
}

// Megatron's adam-18 and DT-FM's sgd-12 synchronize fp32 gradients, the others gradients in the
// training precision.
TEST_CASE("gradients have the bytes that the optimizer synchronizes") {
  for (const auto& [optimizer, bytes] :
       {std::pair(Optimizer::adam_16, 2), std::pair(Optimizer::adam_18, 4), std::pair(Optimizer::adam_20, 2),
        std::pair(Optimizer::sgd_12, 4), std::pair(Optimizer::sgd_8, 2),
        std::pair(Optimizer::host_offload, 2), std::pair(Optimizer::adam_20_fp32, 4),
        std::pair(Optimizer::adam_16_fp32, 4)}) {
    CAPTURE(name_of(optimizer));
    Job job = tiny_job();
    job.training.optimizer = optimizer;
    CHECK(comm_volumes(job, 2, 2).gradient.value() == bytes * 2672);
  }
}

TEST_CASE("volumes given by the job override stages and replicas and compression") {
  Job job = tiny_job();
  job.comm_cost = CommVolumes{Bytes(123), Bytes(45)};
  job.execution.compression = {0.25, 0.5};
  for (int stages : {1, 2, 4}) {
    CHECK(comm_volumes(job, stages, 2).gradient.value() == 123);
    CHECK(comm_volumes(job, stages, 3).activation.value() == 45);
  }
}
