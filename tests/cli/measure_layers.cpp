// The measuring of layers from a job to a profile, on the emulation of a GPU: its times mean nothing.
#include "cli/measure_layers.hpp"

#include <nlohmann/json.hpp>

#include "planner/core/index.hpp"
#include "planner/io/json_text.hpp"
#include "planner/io/profile_reader.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_of.hpp"

using namespace dtfm;

namespace {

Job tiny_job() {
  Job job;
  job.name = "tiny";
  job.model = Transformer{2, 128, 2, 16, 101};
  job.training.global_batch = 4;
  return job;
}

MeasureRequest request_of(const Job& job) {
  return {job, "lab-card", {}, {1, 2}, {1, 2}, [](double, const std::string&) {}};
}

}  // namespace

TEST_CASE("every kind is measured at every size") {
  const Job job = tiny_job();
  std::vector<double> shares;
  MeasureRequest request = request_of(job);
  request.on_progress = [&](double share, const std::string&) { shares.push_back(share); };
  const LayerProfile profile = measured_layers(request);
  CHECK(profile.gpu == "lab-card");
  CHECK(profile.source == LayerProfile::Source::measured);
  CHECK(profile.precision == "fp16");
  REQUIRE(profile.rows.size() == 12);
  CHECK(shares.size() == 12);
  CHECK(shares[6] == 0.5);
  for (std::size_t i = 0; i < profile.rows.size(); ++i) {
    const ProfileRow& row = profile.rows[i];
    CHECK(row.kind == std::vector{"embedding", "block", "head"}[i / 4]);
    CHECK(row.tensor == (i / 2 % 2 == 0 ? 1 : 2));
    CHECK(row.micro_batch == (i % 2 == 0 ? 1 : 2));
    CHECK((row.forward.median_s > 0 && row.backward.median_s > 0 && row.update.median_s > 0));
    CHECK(row.peak_bytes.value() > row.activation_bytes.value());
  }
  // 16 tokens: 5 h, qkv 3 h, two of the MLP 8 h, 2 bytes each; norms and two heads' sums, six numbers of 4
  // bytes.
  CHECK(profile.rows[4].activation_bytes == 16 * (16 * 128 * 2 + 6 * 4));
  CHECK(parse_profile(json_text(profile_json(profile)), "again.json") == profile);
}

TEST_CASE("what cannot be measured is refused") {
  Job job = tiny_job();
  const auto refusal = [&] { return error_of([&] { measured_layers(request_of(job)); }); };
  auto& model = std::get<Transformer>(job.model);
  model.encoder = true;
  CHECK(refusal() == "job tiny: its layers cannot be measured: there are no kernels for encoders");
  model.encoder = false;
  model.biases = false;
  CHECK_THAT(refusal(), contains("there are no kernels for layer norm without biases"));
  model.biases = true;
  model.heads = 4;
  CHECK_THAT(
      refusal(),
      contains("layer block at micro-batch 1 and tensor degree 1 cannot be measured: shape: hidden ÷ heads "
               "must be 64 or 128") ||
          contains("layer embedding at micro-batch 1"));
  model.heads = 2;
  job.training.precision = "tf32";
  CHECK(refusal() == "--precision: layers can be measured in fp16, bf16 or fp32, not in tf32");
  job.training.precision = "fp16";
  MeasureRequest unnamed = request_of(job);
  unnamed.gpu.reset();
  CHECK_THAT(error_of([&] { measured_layers(unnamed); }), contains("--gpu: is missing: `"));
  job.model = LayerChain{};
  CHECK_THAT(refusal(), contains("there are no kernels for anything but transformers"));
}
