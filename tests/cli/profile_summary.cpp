// Tests the table that summarizes a profile.
#include "cli/profile/profile_summary.hpp"

#include "tests/support/catch.hpp"

using namespace dtfm;
using namespace dtfm::cli;

namespace {

// h = 64, s = 512: the forward pass of a block has 24 s h² + 4 s² h = 50,331,648 + 67,108,864 = 117,440,512
// FLOPs per sequence, with its backward pass 352,321,536; with half of the attention, 251,658,240.
constexpr double full_flops = 352321536, causal_flops = 251658240;

LayerProfile profile_of(double block_s) {
  LayerProfile profile;
  profile.gpu = "card";
  profile.precision = Precision::fp16;
  profile.model = "small";
  profile.shape = Transformer{1, 64, 1, 512, 100};
  profile.rows = {{"block", 1, 1, {block_s / 3}, {block_s * 2 / 3}, {}, {}, {}}};
  return profile;
}

std::string table_of(const LayerProfile& profile) {
  const std::vector<Gpu> catalogue = {{"card", Bytes(1e9), FlopsPerSecond(1e12)}};
  return format_summary({profile, *profile.shape, catalogue});
}

}  // namespace

TEST_CASE("rates are those of the model's FLOPs and the table explains them") {
  const std::string text = table_of(profile_of(full_flops / 0.5e12));
  CHECK_THAT(text, contains("model TFLOP/s"));
  CHECK_THAT(text, contains("0.5            50.0 %"));
  CHECK_THAT(text, contains("model TFLOP/s count attention in full"));
}

TEST_CASE("a kernel that skips masked elements is not reported as faster than the peak") {
  // 1.3 times the peak as the model counts, 0.93 as the kernel computes.
  CHECK_THAT(table_of(profile_of(full_flops / 1.3e12)), !contains("faster than the peak"));
  CHECK_THAT(table_of(profile_of(causal_flops / 0.99e12)), !contains("faster than the peak"));
  CHECK_THAT(table_of(profile_of(causal_flops / 1.01e12)),
             contains("note: `block` would be computed faster than the peak of the GPU"));
}

TEST_CASE("memory and updates are shown if known") {
  LayerProfile profile = profile_of(1);
  CHECK_THAT(table_of(profile), !contains("kept until"));
  profile.rows[0].peak_bytes = 4e6;
  profile.rows[0].update = Timing{0.25};
  const std::string text = table_of(profile);
  CHECK_THAT(text, contains("kept until backward  peak allocated"));
  CHECK_THAT(text, contains("  250  "));
  CHECK_THAT(text, contains("–                    4 MB"));
}
