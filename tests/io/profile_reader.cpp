#include "core/io/readers/profile_reader.hpp"

#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/io/readers/job_reader.hpp"
#include "core/io/text/json_format.hpp"
#include "core/io/text/text_file.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dtfm;
using namespace dtfm::io;

namespace {

/// Returns the n-th block between ```LANGUAGE and ``` in the documentation of the schema.
std::string block_of_readme(const std::string& language, int n = 0) {
  const std::string text = read_file(DTFM_SOURCE_DIR "/configs/profiles/README.md", 1 << 20);
  const std::string fence = "```" + language + "\n";
  std::size_t begin = text.find(fence);
  for (; n > 0 && begin != std::string::npos; --n) begin = text.find(fence, begin + 1);
  if (begin == std::string::npos) return "";
  begin += fence.size();
  return text.substr(begin, text.find("```", begin) - begin);
}

std::string with_layers(const std::string& rows) {
  return "{\"schema\": \"dtfm-profile/1\", \"gpu\": \"one\", \"source\": \"measured\", \"precision\": "
         "\"fp16\",\n"
         "\"model\": \"m\", \"layers\": [\n" +
         rows + "]}";
}

const std::string row = R"({"kind": "block", "micro_batch": 1, "forward_s": 1, "backward_s": 2})";

/// Returns `good` with the first `old` in it replaced.
std::string changed(std::string good, const std::string& old, const std::string& by) {
  return good.replace(good.find(old), old.size(), by);
}

}  // namespace

TEST_CASE("the example of the schema's documentation reads back after it is written") {
  const LayerProfile profile = parse_profile(block_of_readme("json"), "example.json");
  CHECK(profile.gpu == "A100-80GB");
  CHECK(profile.source == LayerProfile::Source::measured);
  CHECK(profile.precision == Precision::bf16);
  REQUIRE(profile.shape);
  CHECK(profile.shape->hidden == 4096);
  CHECK(profile.shape->kv_heads == 8);
  CHECK(profile.shape->gated);
  REQUIRE(profile.software.size() == 2);
  CHECK(profile.software[1] == std::pair<std::string, std::string>{"driver", "570.86"});
  REQUIRE(profile.rows.size() == 4);
  const ProfileRow& block = profile.rows[1];
  CHECK(block.kind == "block");
  CHECK(block.forward == Timing{0.0078, 0.00005});
  CHECK(block.update.value().median_s == 0.0019);
  CHECK(block.activation_bytes == 805306368);
  CHECK_FALSE(profile.rows[0].peak_bytes);
  CHECK(parse_profile(format_json(profile_json(profile)), "again.json") == profile);
}

TEST_CASE("a job names shipped profiles from any folder") {
  const TemporaryFolder folder;
  const auto job = parse_job(
      "version: 1\nname: j\nmodel: {preset: gpt3-xl}\ntraining: {global_batch: 8, "
      "micro_batch: 1}\nprofile: [v100, h100-gpt3-xl, h200-llama-3-8b]\n",
      (folder.path() / "job.yaml").string());
  REQUIRE(job.profiles.size() == 3);
  CHECK(job.profiles[1].gpu == "H100");
  CHECK(job.profiles[1].rows.size() == 12);
  CHECK(job.profiles[2].gpu == "H200");
  CHECK(job.profiles[2].model == "llama-3-8b");
  const auto error = error_message([&] {
    parse_job(
        "version: 1\nname: j\nmodel: {preset: gpt3-xl}\ntraining: {global_batch: 8}\nprofile: h200-gpt3\n",
        (folder.path() / "job.yaml").string());
  });
  CHECK(error.ends_with(
      "nor is it a shipped profile (these are v100, h100-gpt3-xl, h100-gpt3-6.7b, h100-llama-3-8b, "
      "h200-gpt3-xl, h200-gpt3-6.7b, h200-llama-3-8b, v100-opt-350m, a100-opt-350m, gh200-opt-350m)"));
}

TEST_CASE("a job of OPT-350M uses the published layer times of Sailor") {
  const auto job_with = [](const char* precision, const char* profile) {
    return parse_job(
        fmt::format("version: 1\nname: j\nmodel: {{preset: opt-350m}}\n"
                    "training: {{global_batch: 8, micro_batch: 4, precision: {}}}\nprofile: {}\n",
                    precision, profile),
        "job.yaml");
  };
  for (const auto& [precision, name, gpu] :
       {std::tuple{"tf32", "a100-opt-350m", "A100-40GB"}, std::tuple{"tf32", "gh200-opt-350m", "GH200"},
        std::tuple{"fp32", "v100-opt-350m", "V100-16GB"}}) {
    const LayerProfile profile = job_with(precision, name).profiles.at(0);
    CHECK(profile.gpu == gpu);
    CHECK(profile.precision == job_with(precision, name).training.precision);
    CHECK(profile.includes_all_reduces);
    CHECK(profile.derivation.find("MIT licence") != std::string::npos);
  }
}

TEST_CASE("a job accepts the documented ways to name profiles") {
  const std::string head =
      "version: 1\nname: j\nmodel: {kind: transformer, layers: 2, hidden: 8, heads: 2, sequence: 4, "
      "vocabulary: 9}\n"
      "training: {global_batch: 1}\n";
  const TemporaryFolder folder;
  for (const auto& [file, gpu] : {std::pair{"v100.json", "V100-16GB"}, {"a100.json", "A100-80GB"}})
    folder.write(std::string("profiles/") + file, changed(with_layers(row), "one", gpu));
  const std::string job = (folder.path() / "job.yaml").string();
  CHECK(parse_job(head + block_of_readme("yaml", 0), job).profiles.at(0).gpu == "V100-16GB");
  const Job both = parse_job(head + block_of_readme("yaml", 1), job);
  CHECK(both.profiles.size() == 2);
  CHECK(both.efficiency == 0.4);
  CHECK(parse_job(head + block_of_readme("yaml", 2), job).profiles.at(0).rows.size() == 1);
  CHECK(block_of_readme("yaml", 3).empty());
}

TEST_CASE(
    "rows are sorted by kind in file order then tensor degree then micro-batch and missing fields have "
    "defaults") {
  const LayerProfile profile =
      parse_profile(with_layers(R"({"kind": "head", "micro_batch": 4, "forward_s": 4, "backward_s": 0},
{"kind": "block", "micro_batch": 1, "tensor": 2, "forward_s": 2, "backward_s": 0},
{"kind": "head", "micro_batch": 2, "forward_s": 3, "backward_s": 0},
{"kind": "block", "micro_batch": 8, "forward_s": 1, "backward_s": 0})"),
                    "p.json");
  std::vector<double> order;
  for (const ProfileRow& it : profile.rows) order.push_back(it.forward.median_s);
  CHECK(order == std::vector<double>{3, 4, 1, 2});
  CHECK(profile.rows[0].tensor == 1);
  CHECK_FALSE(profile.rows[0].update);
}

TEST_CASE("an invalid profile is rejected with the position of the error") {
  const std::string good = with_layers(row);
  REQUIRE(error_message([&] { parse_profile(good, "p.json"); }) == "no error");
  const auto [text, message] = GENERATE_COPY(table<std::string, std::string>(
      {{changed(good, "dtfm-profile/1", "dtfm-profile/2"),
        "p.json:1:12: `schema`: expected `dtfm-profile/1`; found `dtfm-profile/2`"},
       {changed(good, "measured", "guessed"), "p.json:1:54: `source`: "},
       {changed(good, "fp16", "fp8"), "p.json:1:79: `precision`: "},
       {changed(good, "\"model\": \"m\",", ""), "p.json:1:1: missing key `model`"},
       {changed(good, "\"gpu\": \"one\",", "\"gpus\": \"one\","),
        "p.json:1:30: unknown key `gpus`; did you mean `gpu`?"},
       {changed(good, "\"kind\": \"block\", ", ""), "p.json:3:1: missing key `kind`"},
       {changed(good, "\"forward_s\": 1", "\"forward\": 1"),
        "p.json:3:37: unknown key `forward`; did you mean `forward_s`?"},
       {changed(good, "\"forward_s\": 1", "\"forward_s\": -1"), "p.json:3:50: `forward_s`: "},
       {changed(good, "\"backward_s\": 2", "\"backward_s\": .inf"), "p.json:3:67: `backward_s`: "},
       {changed(good, "\"backward_s\": 2", "\"backward_s\": 1e999"), "p.json:3:67: `backward_s`: "},
       {changed(good, "\"backward_s\": 2", "\"backward_s\": 2, \"update_s\": NaN"),
        "p.json:3:82: `update_s`: "},
       {changed(good, "\"micro_batch\": 1", "\"micro_batch\": 0"), "p.json:3:34: `micro_batch`: "},
       {changed(good, "\"micro_batch\": 1", "\"micro_batch\": 1.5"), "p.json:3:34: `micro_batch`: "},
       {with_layers(row + ",\n" + row),
        "p.json:4:1: layer `block` at micro-batch 1 and tensor degree 1 is given twice, first at p.json:3:1"},
       {with_layers(""), "p.json:2:25: `layers`: must not be empty"},
       {good.substr(0, good.size() - 3), "p.json:"},
       {"[]", "p.json:1:1: "}}));
  CHECK_THAT(error_message([&, faulty = text] { parse_profile(faulty, "p.json"); }), contains(message));
}
