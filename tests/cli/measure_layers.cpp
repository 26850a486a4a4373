// Tests measuring layers from a job to a profile, on an emulated GPU whose times mean nothing.
#include "cli/profile/measure_layers.hpp"

#include <nlohmann/json.hpp>

#include "kernels/platform/emulation.hpp"
#include "kernels/profile.hpp"
#include "core/base/index.hpp"
#include "core/io/readers/profile_reader.hpp"
#include "core/io/text/json_format.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"

using namespace dtfm;
using namespace dtfm::cli;
using namespace dtfm::io;

namespace {

Job tiny_job() {
  Job job;
  job.name = "tiny";
  job.model = Transformer{2, 128, 2, 16, 101};
  job.training.global_batch = 4;
  return job;
}

MeasureRequest request_of(const Job& job) {
  return {job, "lab-card", {}, {1, 2}, {1, 2}, [](const Progress&) {}};
}

}  // namespace

TEST_CASE("every kind of layer is measured at every size") {
  const Job job = tiny_job();
  std::vector<double> shares;
  MeasureRequest request = request_of(job);
  request.on_progress = [&](const Progress& progress) { shares.push_back(progress.share); };
  const LayerProfile profile = measure_layers(request);
  CHECK(profile.gpu == "lab-card");
  CHECK(profile.source == LayerProfile::Source::measured);
  CHECK(profile.precision == Precision::fp16);
  REQUIRE(profile.rows.size() == 12);
  CHECK(shares.size() == 12);
  CHECK(shares[6] == 0.5);
  for (std::size_t i = 0; i < profile.rows.size(); ++i) {
    const ProfileRow& row = profile.rows[i];
    CHECK(row.kind == std::vector{"embedding", "block", "head"}[i / 4]);
    CHECK(row.tensor == (i / 2 % 2 == 0 ? 1 : 2));
    CHECK(row.micro_batch == (i % 2 == 0 ? 1 : 2));
    CHECK((row.forward.median_s > 0 && row.backward.median_s > 0 && row.update.value().median_s > 0));
    CHECK(row.peak_bytes.value() > row.activation_bytes.value());
  }
  // 16 tokens: 5 h, qkv 3 h, two of the MLP 8 h, 2 bytes each; norms and two sums of the heads, six numbers
  // of 4 bytes.
  CHECK(profile.rows[4].activation_bytes == 16 * (16 * 128 * 2 + 6 * 4));
  CHECK(parse_profile(format_json(profile_json(profile)), "again.json") == profile);
}

// kernels/ writes profiles without the project's readers, which must be able to read them.
TEST_CASE("a profile written by the kernels contains what was measured") {
  kernels::ProfileRequest request{"lab \"card\"", "a\\b", {}, {1}, {1}, 7};
  request.shape = {1, 2048, 4096, 32, 8, 14336, 128256, true, true, true, true, 1, kernels::DType::bf16};
  kernels::DeviceIdentity device;
  device.name = "NVIDIA Lab";
  device.driver_version = "570.86";
  device.cuda_runtime_version = 12080;
  kernels::LayerTimes row;
  row.kind = kernels::LayerKind::head;
  row.micro_batch = 4;
  row.tensor_parallel = 2;
  row.forward_s = 0.1 + 0.2;  // has no short decimal form
  row.backward_s = 3e-5;
  row.update_s = 0.004;
  row.forward_spread = 0.25;  // relative to the median
  row.activation_bytes = 805306368;
  row.peak_bytes = 123456789012;
  row.state.sm_clock_mhz = 1500;
  row.state.throttle_reasons = 4;
  const std::vector<std::string> omitted{"block at micro-batch 8 and tensor degree 1"};
  const LayerProfile profile =
      parse_profile(kernels::profile_json(request, device, {{row}}, omitted), "written.json");
  CHECK(profile.gpu == "lab \"card\"");
  CHECK(profile.model == "a\\b");
  CHECK(profile.source == LayerProfile::Source::measured);
  CHECK(profile.precision == Precision::bf16);
  CHECK_THAT(profile.derivation, contains("medians of at least 7 runs on one NVIDIA Lab"));
  CHECK_THAT(profile.derivation, contains("; during the measurement: 1500 MHz, limited by the power cap"));
  CHECK_THAT(profile.derivation, contains("; not enough memory for block at micro-batch 8"));
  Transformer shape{0, 4096, 32, 2048, 128256};
  shape.kv_heads = 8;
  shape.feed_forward = 14336;
  shape.gated = shape.flash_attention = true;
  shape.norm = Norm::rms;
  shape.biases = no_biases;
  shape.learned_positions = false;
  REQUIRE(profile.shape);
  CHECK(*profile.shape == shape);
  CHECK(profile.software ==
        std::vector<std::pair<std::string, std::string>>{{"cuda", "12.8"}, {"driver", "570.86"}});
  REQUIRE(profile.rows.size() == 1);
  CHECK(
      profile.rows[0] ==
      ProfileRow{
          "head", 4, 2, {0.1 + 0.2, (0.1 + 0.2) / 4}, {3e-5, 0}, Timing{0.004, 0}, 805306368, 123456789012});
}

TEST_CASE("the vendor is removed from a driver's name") {
  CHECK(kernels::short_name("NVIDIA H200") == "H200");
  CHECK(kernels::short_name("NVIDIA GeForce RTX 3090") == "RTX 3090");
  CHECK(kernels::short_name("Tesla V100-SXM2-16GB") == "V100-SXM2-16GB");
}

// A block of hidden size h = 128 has 12 h² + 13 h parameters of 16 bytes, 3.2 MB. At 64 · 16 tokens its
// activations of 32 h + 24 bytes per token add 4.2 MB, and so do its gradients; a head has 3.5 MB less than
// that.
TEST_CASE("rows that do not fit in memory are skipped on request") {
  kernels::ProfileRequest request{"card", "tiny", {1, 16, 128, 2, 2, 512, 101}, {1, 64}, {1}, 1};
  request.skips_out_of_memory = true;
  kernels::emulation::set_memory_limit(8'000'000);
  const std::string text = kernels::measured_profile(request);
  request.skips_out_of_memory = false;
  std::string rejection_message;
  try {
    kernels::measured_profile(request);
  } catch (const kernels::DeviceError& error) {
    rejection_message = error.what();
  }
  request.skips_out_of_memory = true;
  kernels::emulation::set_memory_limit(1'000'000);
  CHECK_THROWS_AS(kernels::measured_profile(request), kernels::OutOfMemory);
  kernels::emulation::set_memory_limit(static_cast<std::size_t>(-1));
  CHECK(rejection_message ==
        "layer block at micro-batch 64 and tensor degree 1 cannot be measured: out of memory");
  const LayerProfile profile = parse_profile(text, "written.json");
  CHECK_THAT(profile.derivation,
             contains("not enough memory for block at micro-batch 64 and tensor degree 1"));
  REQUIRE(profile.rows.size() == 5);
  CHECK((profile.rows[2].kind == "block" && profile.rows[2].micro_batch == 1));
  CHECK((profile.rows[3].kind == "head" && profile.rows[4].micro_batch == 64));
}

TEST_CASE("what cannot be measured is rejected") {
  Job job = tiny_job();
  const auto rejection_message = [&] { return error_message([&] { measure_layers(request_of(job)); }); };
  auto& model = std::get<Transformer>(job.model);
  model.encoder = true;
  CHECK(rejection_message() == "job tiny: its layers cannot be measured: there are no kernels for encoders");
  model.encoder = false;
  model.biases = no_biases;
  CHECK_THAT(rejection_message(), contains("there are no kernels for layer norm without biases"));
  model.biases = {};
  model.heads = 4;
  CHECK_THAT(
      rejection_message(),
      contains("layer block at micro-batch 1 and tensor degree 1 cannot be measured: shape: hidden ÷ heads "
               "must be 64 or 128") ||
          contains("layer embedding at micro-batch 1"));
  model.heads = 2;
  job.training.precision = Precision::tf32;
  CHECK(rejection_message() == "--precision: layers cannot be measured in tf32, only in fp16, bf16, fp32");
  job.training.precision = Precision::fp16;
  MeasureRequest unnamed = request_of(job);
  unnamed.gpu.reset();
  CHECK_THAT(error_message([&] { measure_layers(unnamed); }), contains("--gpu: is missing: `"));
  job.model = LayerChain{};
  CHECK_THAT(rejection_message(), contains("there are no kernels for anything but transformers"));
}
