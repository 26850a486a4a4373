#include "core/plan/compression.hpp"

#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/small_problems.hpp"

namespace dtfm {
namespace {

Transformer block_of(int hidden, int layers = 24) {
  Transformer model;
  model.layers = layers;
  model.hidden = hidden;
  model.heads = 16;
  model.sequence = 2048;
  model.vocabulary = 50257;
  return model;
}

Training training_in(Precision precision, Optimizer optimizer = Optimizer::adam_16) {
  Training training;
  training.precision = precision;
  training.optimizer = optimizer;
  return training;
}

/// The preset must exist.
CompressionPreset preset_of(std::string_view name) {
  return parse_compression_preset(name).value();
}

double activation_ratio(std::string_view name, Precision precision) {
  return activation_compression(preset_of(name), training_in(precision), Model(LayerChain{})).ratio;
}

double gradient_ratio(std::string_view name, Optimizer optimizer = Optimizer::adam_16) {
  return gradient_compression(preset_of(name), training_in(Precision::fp16, optimizer), Model(block_of(2048)))
      .ratio;
}

TEST_CASE("every compression method has a row in the order of the enum and names that read back") {
  for (std::size_t i = 0; i < compression_table().size(); ++i) {
    const CompressionTraits& method = compression_table()[i];
    INFO(method.name);
    CHECK(static_cast<std::size_t>(method.kind) == i);
    CHECK(&traits(method.kind) == &method);
    const CompressionPreset preset{method.kind,
                                   method.parameter == CompressionTraits::Parameter::none ? 0.0 : 2};
    CHECK(parse_compression_preset(name_of(preset)) == preset);
  }
  for (const std::string name :
       {"8-bit", "4-bit", "top-1%", "top-0.5%", "top-0.00000012%", "rank-4", "rank-128"})
    CHECK(name_of(preset_of(name)) == name);
  CHECK(preset_of("top-.50%") == preset_of("top-0.5%"));
}

TEST_CASE("quantization adds 32-bit scales: one per 2048 numbers of 8 bits or per 64 numbers of 4 bits") {
  CHECK(activation_ratio("8-bit", Precision::fp16) == Approx((8 + 1.0 / 64) / 16));
  CHECK(activation_ratio("8-bit", Precision::fp32) == Approx((8 + 1.0 / 64) / 32));
  CHECK(activation_ratio("4-bit", Precision::bf16) == Approx(4.5 / 16));
  // Gradients are sent in the precision in which the optimizer accumulates them.
  CHECK(gradient_ratio("4-bit") == Approx(4.5 / 16));
  CHECK(gradient_ratio("4-bit", Optimizer::adam_18) == Approx(4.5 / 32));
}

TEST_CASE("top-k gradients are sent with indices of 4 bytes") {
  CHECK(gradient_ratio("top-1%") == Approx(0.01 * 3));
  CHECK(gradient_ratio("top-0.1%", Optimizer::adam_18) == Approx(0.001 * 2));
}

// For the blocks of GPT-3 XL: 4 matrices of h² and 2 of 4 h², whose factors have 4 · 2h + 2 · 5h = 18 h
// numbers per rank. The vectors are two norms of 2h and biases of 3h + h + 4h + h. In addition: embedding,
// positions, and a norm of 2h at the end.
TEST_CASE("low-rank compression sends factors of matrices and whole vectors") {
  const double h = 2048, blocks = 24, rank = 4;
  const double matrices = blocks * 12 * h * h + (50257 + 2048) * h, vectors = blocks * 13 * h + 2 * h;
  const double factors = rank * (blocks * 18 * h + 50257 + h + 2048 + h);
  CHECK(gradient_ratio("rank-4") == Approx((factors + vectors) / (matrices + vectors)).epsilon(1e-12));
  // A matrix that its factors would not make smaller is sent uncompressed.
  CHECK(gradient_ratio("rank-1000") < 1);
  CHECK(error_message([] { gradient_ratio("rank-2048"); }) ==
        "`rank-2048` does not make the gradients smaller; use a smaller rank");
}

TEST_CASE("low-rank compression knows the matrices of grouped queries and gated MLPs") {
  Transformer model = block_of(4096, 32);
  model.heads = 32;
  model.kv_heads = 8;
  model.feed_forward = 14336;
  model.gated = true;
  model.biases = no_biases;
  model.learned_positions = model.tied = false;
  model.norm = Norm::rms;
  model.vocabulary = 128256;
  const double h = 4096, f = 14336, v = 128256, blocks = 32;
  const double matrices = blocks * (2 * h * h + 2 * h * 1024 + 3 * h * f) + 2 * v * h;
  const double factors = blocks * (2 * 2 * h + 2 * (h + 1024) + 3 * (h + f)) + 2 * (v + h);
  const double vectors = blocks * 2 * h + h;
  CHECK(gradient_compression(preset_of("rank-1"), training_in(Precision::bf16), Model(model)).ratio ==
        Approx((factors + vectors) / (matrices + vectors)).epsilon(1e-12));
  // Heads twice as wide: queries of 8192, keys and values of 2048.
  model.head_dim = 256;
  const double wide_matrices = matrices + blocks * (2 * h * 4096 + 2 * h * 1024),
               wide_factors = factors + blocks * (2 * 4096 + 2 * 1024);
  CHECK(gradient_compression(preset_of("rank-1"), training_in(Precision::bf16), Model(model)).ratio ==
        Approx((wide_factors + vectors) / (wide_matrices + vectors)).epsilon(1e-12));
}

// BERT has two more matrices of h² (the pooler and the transform before the head) and a table of two token
// types in addition to vectors.
TEST_CASE("low-rank compression knows the matrices of an encoder") {
  Transformer model = block_of(768, 12);
  model.heads = 12;
  model.sequence = 512;
  model.vocabulary = 30522;
  Transformer encoder = model;
  encoder.encoder = true;
  const auto sent = [](const Transformer& of) {  // returns a count of numbers
    double parameters = 0;
    for (const Layer& layer : layer_chain(Model(of), 2))
      parameters += layer.parameters - layer.tied_parameters;
    return std::pair(
        gradient_compression(preset_of("rank-4"), training_in(Precision::fp16), Model(of)).ratio * parameters,
        parameters);
  };
  const auto [few, of_few] = sent(model);
  const auto [more, of_more] = sent(encoder);
  CHECK(more - few == Approx(of_more - of_few - 2 * 768 * 768 + 2 * 4 * 2 * 768));
}

TEST_CASE("presets that are unknown or do not reduce the gradients are rejected") {
  for (const std::string name :
       {"8bit", "16-bit", "top-1", "top-%", "top-0%", "top--1%", "top-nan%", "top-1e3%", "rank-", "rank-0",
        "rank-1.5", "rank-4.0", "rank-x", "", "top-", "%"}) {
    INFO(name);
    CHECK_FALSE(parse_compression_preset(name));
  }
  CHECK(error_message([] { gradient_ratio("top-34%"); }) ==
        "`top-34%` does not make the gradients smaller; use a smaller share");  // 3 × 34 %
  CHECK(gradient_ratio("top-33%") < 1);
  CHECK(error_message([] { activation_ratio("top-1%", Precision::fp16); }) ==
        "`top-1%` compresses gradients only; use `8-bit` or `4-bit` for activations");
  CHECK(error_message([] {
          gradient_compression(preset_of("rank-4"), training_in(Precision::fp16), Model(LayerChain{}));
        }) ==
        "low-rank compression requires a model of kind transformer, whose matrices are known; use `8-bit`, "
        "`4-bit` or `top-1%`");
}

Topology two_gpus(std::optional<BitsPerSecond> other) {
  Topology topology;
  Gpu fast, slow;
  fast.name = "fast";
  fast.memory_bandwidth = BitsPerSecond(8e12);
  slow.name = "slow";
  slow.memory_bandwidth = other;
  topology.gpus = {fast, slow};
  topology.devices.resize(2);
  topology.devices[0].gpu = 0;
  topology.devices[1].gpu = 1;
  return topology;
}

Job job_with(const std::string& activations, const std::string& gradients) {
  Job job;
  job.model = block_of(2048);
  if (!activations.empty()) compress_activations(job, preset_of(activations));
  if (!gradients.empty()) compress_gradients(job, preset_of(gradients));
  return job;
}

// Compressing 2 bytes reads 2 and writes 0.5625, and decompressing does the reverse: 1 + 0.28125 bytes per
// byte for each.
TEST_CASE("a preset costs memory traffic at the bandwidth of the slowest device") {
  const Topology topology = two_gpus(BitsPerSecond(8e11));  // 1e11 bytes per second
  const Job job = job_with("4-bit", "top-1%");
  CHECK(activation_compression_s_per_byte(topology, job, job.execution.compression) ==
        Approx(1.28125 / 1e11));
  CHECK(gradient_compression_s_per_byte(topology, job, job.execution.compression) ==
        Approx((4 + 2 * 0.03) / 2 / 1e11));
  Topology throttled = topology;
  throttled.devices[1].speed = 0.5;
  CHECK(activation_compression_s_per_byte(throttled, job, job.execution.compression) ==
        Approx(1.28125 / 5e10));
}

TEST_CASE("a given throughput replaces the cost of a preset") {
  Job job = job_with("4-bit", "");
  job.execution.compression.throughput = BitsPerSecond(8e9);
  CHECK(activation_compression_s_per_byte(two_gpus(std::nullopt), job, job.execution.compression) ==
        Approx(1e-9));
  CHECK(gradient_compression_s_per_byte(two_gpus(std::nullopt), job, job.execution.compression) ==
        0);  // not compressed
}

TEST_CASE("the cost of a preset is unknown if a memory bandwidth is unknown") {
  CHECK(contains("(slow)").match(error_message([] {
    const Job job = job_with("8-bit", "");
    activation_compression_s_per_byte(two_gpus(std::nullopt), job, job.execution.compression);
  })));
  CHECK(activation_compression_s_per_byte(two_gpus(std::nullopt), job_with("", ""), {}) == 0);
}

TEST_CASE("adaptive compression applies only to links and access links slower than the threshold") {
  Topology topology = flat_topology({2, 1}, link_of(0, 1e8), link_of(0, 1e7));
  Compression all, adaptive;
  adaptive.bandwidth_threshold = BitsPerSecond(5e8);
  CHECK(is_compressed(topology, all, 0, 1));
  CHECK_FALSE(is_compressed(topology, all, 1, 1));
  CHECK_FALSE(is_compressed(topology, adaptive, 0, 1));
  CHECK(is_compressed(topology, adaptive, 0, 2));
  CHECK(topology.uncontended_bandwidth(0, 1).value() == 8e8);
  topology.devices[0].uplink = BitsPerSecond(4e8);
  CHECK(topology.uncontended_bandwidth(0, 1).value() == 4e8);
  CHECK(is_compressed(topology, adaptive, 0, 1));
  CHECK_FALSE(is_compressed(topology, adaptive, 1, 0));
  adaptive.bandwidth_threshold = BitsPerSecond(4e8);  // not slower than the threshold
  CHECK_FALSE(is_compressed(topology, adaptive, 0, 1));
}

TEST_CASE(
    "gradient synchronization is compressed if any two of its devices have a slow link in either "
    "direction") {
  Topology topology = flat_topology({3, 1}, link_of(0, 1e8), link_of(0, 1e7));
  Compression adaptive;
  adaptive.bandwidth_threshold = BitsPerSecond(5e8);
  const std::vector<int> near = {0, 1, 2}, far = {0, 1, 3}, uncontended_bandwidth = {3};
  CHECK(is_compressed(topology, Compression(), near));
  CHECK_FALSE(is_compressed(topology, adaptive, near));
  CHECK(is_compressed(topology, adaptive, far));
  CHECK_FALSE(is_compressed(topology, adaptive, uncontended_bandwidth));
  topology.devices[1].downlink = BitsPerSecond(1e8);
  CHECK(is_compressed(topology, adaptive, near));
}

namespace {

double feedback_bytes(const Job& job) {
  return error_feedback_bytes(job.training, job.execution.compression);
}

}  // namespace

TEST_CASE("error feedback keeps one more number per parameter") {
  CHECK(feedback_bytes(job_with("8-bit", "top-1%")) == 2);
  Job in_full = job_with("", "rank-4");
  CHECK(feedback_bytes(in_full) == 2);
  in_full.training.optimizer = Optimizer::adam_18;
  CHECK(feedback_bytes(in_full) == 4);
  CHECK(feedback_bytes(job_with("8-bit", "8-bit")) == 0);
  CHECK(feedback_bytes(job_with("", "")) == 0);
}

}  // namespace
}  // namespace dtfm
