#include "core/model/matmul_format.hpp"

#include "core/cluster/topology.hpp"
#include "core/model/model.hpp"
#include "core/plan/communication.hpp"
#include "core/plan/model_state.hpp"
#include "core/plan/roofline.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"

using namespace dtfm;

namespace {

Transformer small_gpt() {
  Transformer model{3, 8, 2, 16, 100};
  model.flash_attention = true;
  return model;
}

Gpu gpu() {
  Gpu it;
  it.name = "G";
  it.peak = FlopsPerSecond(100);
  it.peak_tf32 = FlopsPerSecond(50);
  it.peak_fp8 = FlopsPerSecond(200);
  it.memory_bandwidth = BitsPerSecond(1e30);  // memory takes no time
  return it;
}

Training training(MatmulFormat format, Optimizer optimizer = Optimizer::adam_18) {
  return {.global_batch = 1, .precision = Precision::bf16, .matmul = format, .optimizer = optimizer};
}

double forward_s(const Layer& kind, MatmulFormat format) {
  return estimated_row(gpu(), kind, training(format), {.launch_s = 0}, 1, StageMesh{}, true).forward.median_s;
}

}  // namespace

// Of the 34 s h bytes of a GPT block in 16 bits, 2 s h are the input of the queries, keys and values, 2 s h
// that of the MLP and 8 s h that of its second matrix: half of each. The attention core keeps the input of
// the output projection in 16 bits, so its 8-bit copy adds s h.
TEST_CASE("quantized inputs of products are kept in their format") {
  const Layer block = layer_kinds(small_gpt(), 2).kinds[1],
              quantized = layer_kinds(small_gpt(), {2, 1}).kinds[1];
  CHECK(block.activation_memory.value() == 34 * 16 * 8);
  CHECK(quantized.activation_memory.value() == (34 - 1 - 1 - 4 + 1) * 16 * 8);
  CHECK(quantized.replicated_memory.value() == (10 - 2) * 16 * 8);
  CHECK(quantized.output == block.output);
  const LayerKinds kinds = layer_kinds(small_gpt(), 2), others = layer_kinds(small_gpt(), {2, 1});
  CHECK(kinds.kinds.front() == others.kinds.front());
  CHECK(kinds.kinds.back() == others.kinds.back());
}

TEST_CASE("quantized numbers have their share of the scales") {
  CHECK(traits(MatmulFormat::fp8).bytes == 1);
  CHECK(traits(MatmulFormat::fp8_blockwise).bytes == (128 + 4) / 128.0);
  CHECK(traits(MatmulFormat::mxfp8).bytes == 33 / 32.0);
  CHECK(traits(MatmulFormat::nvfp4).bytes == (8 + 1) / 16.0);
  CHECK(traits(MatmulFormat::fp8_blockwise).weight_bytes == (128 * 128 + 4) / (128 * 128.0));
}

// A block of 24 s h² + 4 s² h FLOPs, the latter in 16 bits, of which a mask hides half; the head is in 16
// bits as a whole.
TEST_CASE("products of blocks with weights have the rate of their format") {
  const LayerKinds kinds = layer_kinds(small_gpt(), 2);
  const Layer &block = kinds.kinds[1], &head = kinds.kinds[2];
  const double products = 24 * 16 * 64, scores = 4 * 256 * 8 / 2;
  CHECK(forward_s(block, MatmulFormat::precision) == Approx((products + scores) / 100));
  CHECK(forward_s(block, MatmulFormat::fp8) == Approx(products / 200 + scores / 100));
  CHECK(forward_s(head, MatmulFormat::fp8) == forward_s(head, MatmulFormat::precision));
  CHECK(error_message([&] { forward_s(block, MatmulFormat::nvfp4); }) ==
        "times on GPU G cannot be estimated: its entry in the catalogue has no `peak_fp4`");
  CHECK(!can_estimate(gpu(), training(MatmulFormat::nvfp4)));
}

// Two copies of the matrices of three blocks, 12 h² each; embedding and head have none.
TEST_CASE("a device keeps quantized copies of the matrices of blocks") {
  Job job;
  job.model = small_gpt();
  job.training = training(MatmulFormat::precision);
  CHECK(LayerBytes(job, job.execution).quantized_copies({0, 3}, StageMesh{}) == 0);
  job.training.matmul = MatmulFormat::mxfp8;
  const LayerBytes bytes(job, job.execution);
  CHECK(bytes.quantized_copies({0, 3}, StageMesh{}) == 3 * 12 * 64 * 2 * 33 / 32.0);
  CHECK(bytes.quantized_copies({0, 1}, StageMesh{}) == bytes.quantized_copies({1, 2}, StageMesh{}));
  CHECK(parameter_bytes(job.training).resident == 18);
}

// Matrices of a block: four of 8 × 8 and two of 8 × 32; five iterations of 4 m² n + 2 m³ FLOPs. Of the head
// nothing is orthogonalized.
TEST_CASE("Muon orthogonalizes the matrices of blocks") {
  const LayerKinds kinds = layer_kinds(small_gpt(), 2);
  const double square = 5 * (4 * 512 + 2 * 512), wide = 5 * (4 * 64 * 32 + 2 * 512);
  CHECK(kinds.kinds[1].orthogonalization.value() == 4 * square + 2 * wide);
  CHECK(kinds.kinds[2].orthogonalization.value() == 0);
  const auto update_s = [&](Optimizer optimizer) {
    return estimated_row(gpu(), kinds.kinds[1], training(MatmulFormat::precision, optimizer), {}, 1,
                         StageMesh{}, true)
        .update->median_s;
  };
  CHECK(update_s(Optimizer::muon_14) - update_s(Optimizer::adam_14) == Approx((4 * square + 2 * wide) / 100));
}
