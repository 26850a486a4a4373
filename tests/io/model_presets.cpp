#include "core/io/readers/model_presets.hpp"

#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "core/io/readers/job_reader.hpp"
#include "core/io/writers/plan_json.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"

using namespace dtfm;
using namespace dtfm::io;

namespace {

Job job_with(const std::string& model, const std::string& training = "global_batch: 1024") {
  return parse_job("version: 1\nname: j\nmodel: " + model + "\ntraining: {" + training + "}\n", "job.yaml");
}

double parameters(const Job& job) {
  return parameters_of(layer_chain(job), {0, layer_count(job.model)});
}

std::string error_in(const std::string& model) {
  return error_message([&] { job_with(model); });
}

double rounded_to_two_digits(double value) {
  const double unit = std::pow(10, std::floor(std::log10(value)) - 1);
  return std::round(value / unit) * unit;
}

}  // namespace

TEST_CASE("presets have the published parameters within 0.5 % or differ by known tensors") {
  // The exact numbers of parameters of the published weights. DeepSeek LLM publishes only 7 and 67 billion:
  // exact are 2 V h + L (2 h² + 2 h k + 3 h f + 2 h) + h, with k the width of keys and f that of the MLP.
  const std::map<std::string, double> weights = {{"gpt2", 124439808},
                                                 {"gpt2-medium", 354823168},
                                                 {"gpt2-large", 774030080},
                                                 {"gpt2-xl", 1557611200},
                                                 {"llama-2-7b", 6738415616},
                                                 {"llama-2-13b", 13015864320},
                                                 {"llama-2-70b", 68976648192},
                                                 {"llama-3-8b", 8030261248},
                                                 {"llama-3-70b", 70553706496},
                                                 {"mistral-7b", 7241732096},
                                                 {"opt-125m", 125239296},
                                                 {"opt-1.3b", 1315758080},
                                                 {"opt-2.7b", 2651596800},
                                                 {"opt-6.7b", 6658473984},
                                                 {"opt-13b", 12853473280},
                                                 {"llama-3.1-405b", 405853388800},
                                                 {"llama-3.2-1b", 1235814400},
                                                 {"llama-3.2-3b", 3212749824},
                                                 {"deepseek-llm-7b", 6910365696},
                                                 {"deepseek-llm-67b", 67425001472},
                                                 {"resnet-50", 25557032},
                                                 {"vgg-16", 138357544}};
  for (const auto& [name, count] : weights) {
    INFO(name);
    CHECK(parameters(job_with("{preset: " + name + "}")) == count);
  }
  // Published weights that have other parameters than the preset, and the difference. Qwen 2.5 has biases of
  // queries, keys and values: in each layer, the hidden size and twice the width of the key-value heads. The
  // embedding of OPT-350M is 512 wide instead of 1024; it has two projections and no final norm.
  const std::map<std::string, std::pair<double, double>> differing = {
      {"qwen-2.5-0.5b", {494032768, -24 * (896 + 2 * 128)}},
      {"qwen-2.5-1.5b", {1543714304, -28 * (1536 + 2 * 256)}},
      {"qwen-2.5-3b", {3085938688, -36 * (2048 + 2 * 256)}},
      {"qwen-2.5-7b", {7615616512, -28 * (3584 + 2 * 512)}},
      {"qwen-2.5-14b", {14770033664, -48 * (5120 + 2 * 1024)}},
      {"qwen-2.5-32b", {32763876352, -64 * (5120 + 2 * 1024)}},
      {"qwen-2.5-72b", {72706203648, -80 * (8192 + 2 * 1024)}},
      {"opt-350m", {331196416, 50272 * 512 - 2 * 512 * 1024 + 2 * 1024}}};
  for (const auto& [name, weights_and_difference] : differing) {
    INFO(name);
    const auto [count, difference] = weights_and_difference;
    CHECK(parameters(job_with("{preset: " + name + "}")) == count + difference);
  }
  // BERT's weights include a head for next-sentence prediction (2 h + 2), and GPT-Neo's have no biases of
  // queries, keys and values (configs/models.yaml). The others are the round numbers of the papers.
  const std::map<std::string, double> published = {
      {"bert-base", 110106428}, {"bert-large", 336226108}, {"gpt-neo-2.7b", 2651307520}, {"gpt3-175b", 175e9},
      {"opt-30b", 30e9},        {"opt-66b", 66e9},         {"opt-175b", 175e9}};
  for (const auto& [name, count] : published) {
    INFO(name);
    CHECK(parameters(job_with("{preset: " + name + "}")) == Approx(count).epsilon(0.005));
  }
  // GPT-3's three smaller models are published only in billions with two digits: 1.3, 6.7 and 13. The sizes
  // give 1.316, 6.658 and 12.853, which are equal after rounding.
  const std::map<std::string, double> rounded = {
      {"gpt3-xl", 1.3e9}, {"gpt3-6.7b", 6.7e9}, {"gpt3-13b", 13e9}};
  for (const auto& [name, count] : rounded) {
    INFO(name);
    CHECK(rounded_to_two_digits(parameters(job_with("{preset: " + name + "}"))) == Approx(count));
  }
  // Every transformer of the table is covered.
  std::set<std::string> names;
  for (const auto& entry : preset_transformers()) names.insert(entry.first);
  CHECK(names.size() == preset_transformers().size());
  for (const std::string& name : names)
    CHECK(weights.count(name) + differing.count(name) + published.count(name) + rounded.count(name) == 1);
}

// Narayanan et al., arXiv 2104.04473: the blocks take 96 B s l h² (1 + s ÷ 6h) FLOPs per iteration, of which
// a quarter is the forward pass, another quarter its recomputation, and the rest the backward pass.
TEST_CASE("GPT-3 XL has the published operations per iteration with full recomputation") {
  const std::map<int, double> published = {{24, 23.64e15}, {32, 31.52e15}, {40, 39.4e15}};
  for (const auto& [layers, flops] : published) {
    const Job job = job_with("{preset: gpt3-xl, layers: " + std::to_string(layers) + "}");
    double sum = 0;
    for (const Layer& layer : layer_chain(job))
      sum += (2 * (layer.forward - layer.head) + layer.backward - 2 * layer.head).value();
    CHECK(job.training.global_batch * sum == Approx(flops).epsilon(0.0005));
    const double h = 2048, s = 2048, formula = 96 * 1024 * s * layers * h * h * (1 + s / (6 * h));
    CHECK(job.training.global_batch * sum == Approx(formula));
  }
}

TEST_CASE("any key overrides that of a preset") {
  const auto llama = std::get<Transformer>(job_with("{preset: llama-3-8b, sequence: 4096}").model);
  CHECK(llama.sequence == 4096);
  CHECK(llama.layers == 32);
  CHECK(llama.kv_heads == 8);
  CHECK(llama.norm == Norm::rms);
  CHECK(llama.flash_attention);
  Transformer expected{6, 768, 12, 128, 50257};
  expected.gated = true;
  expected.feed_forward = 1000;
  CHECK(
      std::get<Transformer>(
          job_with(
              "{kind: transformer, gated: true, layers: 6, sequence: 128, preset: gpt2, feed_forward: 1000}")
              .model) == expected);
  const auto learned = std::get<Transformer>(job_with("{preset: llama-3-8b, positions: 9000}").model);
  CHECK(learned.learned_positions);
  CHECK(learned.positions == 9000);
  CHECK_FALSE(
      std::get<Transformer>(job_with("{preset: opt-125m, positions: rotary}").model).learned_positions);
}

TEST_CASE("presets of image models and MLPs take their own keys and sizes in the job's precision") {
  const Job half = job_with("{preset: resnet-50, image: 112, classes: 10}"),
            full =
                job_with("{preset: resnet-50, image: 112, classes: 10}", "global_batch: 8, precision: fp32");
  CHECK(layer_count(half.model) == 18);
  CHECK(sequence_length(half.model) == 1);
  CHECK(layer_chain(half)[0].output.value() == 2 * 64 * 28 * 28);
  CHECK(layer_chain(full)[0].output.value() == 4 * 64 * 28 * 28);
  CHECK(parameters(half) == 25557032 - 2049 * 990);
  CHECK(parameters(job_with("{preset: mlp}")) == 266610);
  CHECK(parameters(job_with("{kind: layers, preset: mlp, widths: [10, 20, 5]}")) == 220 + 105);
}

TEST_CASE("jobs with presets read back as the same job") {
  for (const std::string model : {"{preset: opt-66b}", "{preset: bert-large}", "{preset: llama-3-70b}",
                                  "{preset: resnet-50}", "{preset: vgg-16}", "{preset: mlp}"}) {
    const Job job = job_with(model);
    const Job again = parse_job(job_json(job).dump(), "job.json");
    CHECK(again.model == job.model);
  }
}

TEST_CASE("invalid presets are reported with position and reason") {
  const std::string all =
      "known presets: gpt2, gpt2-medium, gpt2-large, gpt2-xl, gpt3-xl, gpt3-6.7b, gpt3-13b, gpt3-175b, "
      "llama-2-7b, "
      "llama-2-13b, llama-2-70b, llama-3-8b, llama-3-70b, llama-3.1-405b, llama-3.2-1b, llama-3.2-3b, "
      "mistral-7b, qwen-2.5-0.5b, qwen-2.5-1.5b, qwen-2.5-3b, qwen-2.5-7b, qwen-2.5-14b, qwen-2.5-32b, "
      "qwen-2.5-72b, deepseek-llm-7b, deepseek-llm-67b, bert-base, bert-large, opt-125m, opt-350m, opt-1.3b, "
      "opt-2.7b, opt-6.7b, opt-13b, opt-30b, opt-66b, opt-175b, gpt-neo-2.7b, resnet-50, vgg-16, mlp";
  CHECK(error_in("{preset: gpt-2}") ==
        "job.yaml:3:17: `preset`: unknown `gpt-2`; did you mean `gpt2`? " + all);
  CHECK(error_in("{preset: megatron}") == "job.yaml:3:17: `preset`: unknown `megatron`; " + all);
  CHECK(error_in("{preset: gpt2, layer: 3}") == "job.yaml:3:23: unknown key `layer`; did you mean `layers`?");
  CHECK(error_in("{preset: gpt2, kind: layers}") ==
        "job.yaml:3:29: `kind`: unknown `layers`; known: `transformer`");
  CHECK(error_in("{preset: gpt2, hidden: 770}") ==
        "job.yaml:3:31: `hidden`: 12 heads do not divide hidden 770; give their width as head_dim");
  CHECK_NOTHROW(job_with("{preset: gpt2, hidden: 770, head_dim: 64}"));
  CHECK(error_in("{preset: llama-3-8b, heads: 4}") ==
        "job.yaml:3:36: `heads`: 8 kv_heads do not divide heads 4");
  CHECK(error_in("{preset: opt-125m, sequence: 4096}") ==
        "job.yaml:3:37: `sequence`: 2050 positions are too few for a sequence of 4096");
  CHECK(error_in("{preset: resnet-50, sequence: 2}") ==
        "job.yaml:3:28: unknown key `sequence`; known: `preset`, `kind`, `image`, `classes`");
  CHECK(error_in("{preset: vgg-16, image: 31}") ==
        "job.yaml:3:32: `image`: expected a whole number from 32 to 16384; found `31`");
  CHECK(error_in("{preset: mlp, widths: [10]}") ==
        "job.yaml:3:30: `widths`: expected 2 to 100001 widths, beginning with that of the input; found 1");
}

TEST_CASE("every job of configs/ can be read") {
  const std::set<std::string> others = {"calibration",    "gpus",   "hosts",
                                        "model-families", "models", "roofline"};
  int jobs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(DTFM_SOURCE_DIR) + "/configs")) {
    if (entry.path().extension() != ".yaml" || others.contains(entry.path().stem().string())) continue;
    INFO(entry.path());
    CHECK(read_job(entry.path()).name == entry.path().stem());
    ++jobs;
  }
  CHECK(jobs >= 3);
}
