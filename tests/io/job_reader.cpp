#include "core/io/readers/job_reader.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/io/writers/plan_json.hpp"
#include "core/plan/settings.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/published_job.hpp"

using namespace dtfm;
using namespace dtfm::io;

namespace {

const std::string small = R"(version: 1
name: small
model: {kind: transformer, layers: 4, hidden: 8, heads: 2, sequence: 16, vocabulary: 100}
training: {global_batch: 6}
)";

Job job_of(const std::string& text) {
  return parse_job(text, "job.yaml");
}

std::string error_in(const std::string& text) {
  return error_message([&] { job_of(text); });
}

/// Returns `small` with one part replaced.
std::string with(const std::string& before, const std::string& after) {
  std::string text = small;
  const std::size_t at = text.find(before);
  REQUIRE(at != std::string::npos);
  return text.replace(at, before.size(), after);
}

}  // namespace

TEST_CASE("the built-in job is GPT-3 XL with the published volumes") {
  const Job job = default_job();
  CHECK(job.name == "gpt3-xl");
  const auto& model = std::get<Transformer>(job.model);
  CHECK(model.layers == 24);
  CHECK(model.hidden == 2048);
  CHECK(model.heads == 16);
  CHECK(model.sequence == 2048);
  CHECK(model.vocabulary == 50257);
  CHECK(job.training.global_batch == 1024);
  CHECK(job.execution.micro_batch == 1);
  CHECK(job.execution.recomputation == Recomputation::full);
  CHECK_FALSE(job.parallelism.pipeline);
  CHECK_FALSE(job.parallelism.data);
  CHECK(job.automatic == SettingSet{Setting::micro_batch, Setting::schedule, Setting::gradient_sync,
                                    Setting::optimizer_sharding});
  CHECK(job.execution.schedule == Schedule::gpipe);
  CHECK(job.execution.gradient_sync == GradientSync::sharded_ps);
  CHECK(job.comm_cost_stages == 8);
  REQUIRE(job.comm_cost);
  CHECK(job.comm_cost->gradient.value() == 0.65e9);
  CHECK(job.comm_cost->activation.value() == 0.47124922275543213e9);
}

TEST_CASE("keys that a job omits have the usual defaults") {
  const Job job = job_of(small);
  CHECK(job.execution.micro_batch == 1);
  CHECK(job.training.precision == Precision::fp16);
  CHECK(job.training.optimizer == Optimizer::adam_16);
  CHECK(job.execution.recomputation == Recomputation::none);
  CHECK_FALSE(job.parallelism.pipeline);
  CHECK_FALSE(job.parallelism.data);
  CHECK(job.parallelism.tensor == 1);
  CHECK(job.parallelism.sequence_parallel);
  CHECK(job.execution.schedule == Schedule::gpipe);
  CHECK(job.execution.gradient_sync == GradientSync::sharded_ps);
  CHECK(job.execution.optimizer_sharding == OptimizerSharding::none);
  CHECK(job.execution.compression.gradients == 1);
  CHECK(job.profiles.empty());
  CHECK_FALSE(job.efficiency);
  CHECK_FALSE(job.comm_cost);
  CHECK_FALSE(job.comm_cost_stages);
  CHECK(job.automatic == SettingSet{});
}

TEST_CASE("the published job is the built-in one without open settings") {
  Job job = published_job();
  job.name = "gpt3-xl-published";
  CHECK(job_json(read_job(DTFM_SOURCE_DIR "/configs/gpt3-xl-published.yaml")) == job_json(job));
}

TEST_CASE("every key is read and the job written as JSON reads back as the same job") {
  const Job job = job_of(small + R"(
parallelism: {pipeline: auto, data: 3, tensor: 2, schedule: interleaved, chunks: 2, flush: 64, gradient_sync: ring,
  optimizer_sharding: zero1, overlap: true, tied_embedding_sync: true, iteration_barrier: false, sequence_parallel: false,
  scatter_gather: true, uniform_pipelines: true}
compression: {activations: 0.25, gradients: 0.5, throughput: 50 GB/s, bandwidth_threshold: 1 Gbps}
profile: {analytic: true, efficiency: 0.3}
comm_cost: {stages: 4, gradient: 1 GiB, activation: 3.5 MB}
)");
  CHECK_FALSE(job.parallelism.pipeline);
  CHECK(job.parallelism.data == 3);
  CHECK(job.parallelism.tensor == 2);
  CHECK(job.execution.schedule == Schedule::interleaved);
  CHECK(job.execution.chunks == 2);
  CHECK(job.execution.flush == 64);
  CHECK(job.execution.gradient_sync == GradientSync::ring);
  CHECK(job.execution.optimizer_sharding == OptimizerSharding::zero1);
  CHECK(job.execution.overlap);
  CHECK(job.execution.tied_embedding_sync);
  CHECK_FALSE(job.execution.iteration_barrier);
  CHECK_FALSE(job.parallelism.sequence_parallel);
  CHECK(job.parallelism.scatter_gather);
  CHECK(job.parallelism.uniform_pipelines);
  CHECK(job.execution.compression.throughput->value() == 400e9);
  CHECK(job.execution.compression.bandwidth_threshold->value() == 1e9);
  CHECK(job.execution.compression.activations == 0.25);
  CHECK(job.execution.compression.gradients == 0.5);
  CHECK(job.efficiency == 0.3);
  CHECK(job.comm_cost->gradient.value() == 1073741824);
  CHECK(job.comm_cost->activation.value() == 3.5e6);
  CHECK(job.comm_cost_stages == 4);
  CHECK(job.automatic == SettingSet{});

  const std::string json = job_json(job).dump();
  CHECK(job_json(job_of(json)).dump() == json);
}

TEST_CASE("every precision and optimizer and recomputation is read and written by its name") {
  const auto read = [](std::string_view key, std::string_view name) {
    const Job job = job_of(with("global_batch: 6", fmt::format("global_batch: 6, {}: {}", key, name)));
    CHECK(contains(fmt::format("\"{}\":\"{}\"", key, name)).match(job_json(job).dump()));
    return job;
  };
  for (const auto& row : precision_table()) CHECK(read("precision", row.name).training.precision == row.kind);
  for (const auto& row : optimizer_table()) CHECK(read("optimizer", row.name).training.optimizer == row.kind);
  for (const auto& row : recomputation_table())
    CHECK(read("recompute", row.name).execution.recomputation == row.kind);
}

TEST_CASE("compression by preset name is read as its ratio and written by its name") {
  const Job job = job_of(small + "compression: {activations: 8-bit, gradients: top-0.5%}\n");
  CHECK(job.execution.compression.activations == Approx((8 + 1.0 / 64) / 16));
  CHECK(job.execution.compression.gradients == Approx(0.005 * 3));
  CHECK(job.execution.compression.activation_preset == CompressionPreset{CompressionMethod::quantize_8_bit});
  CHECK(job.execution.compression.gradient_preset == CompressionPreset{CompressionMethod::top_k, 0.5});
  const std::string json = job_json(job).dump();
  CHECK(contains(R"("compression":{"activations":"8-bit","gradients":"top-0.5%"})").match(json));
  CHECK(job_json(job_of(json)).dump() == json);
}

TEST_CASE("settings that are auto are undecided and hold the first choice and read back as undecided") {
  const std::string training = "global_batch: 6, ";
  struct Case {
    std::string text;
    Setting setting;
  };
  const std::vector<Case> cases = {
      {with("global_batch: 6", training + "micro_batch: auto"), Setting::micro_batch},
      {with("global_batch: 6", training + "recompute: auto"), Setting::recompute},
      {small + "parallelism: {tensor: auto}\n", Setting::tensor},
      {small + "parallelism: {schedule: auto}\n", Setting::schedule},
      {small + "parallelism: {gradient_sync: auto}\n", Setting::gradient_sync},
      {small + "parallelism: {optimizer_sharding: auto}\n", Setting::optimizer_sharding},
      {small + "compression: {activations: auto}\n", Setting::activations},
      {small + "compression: {gradients: auto}\n", Setting::gradients},
  };
  for (const auto& [text, setting] : cases) {
    INFO(text);
    const SettingSet expected = {setting};
    Job job = job_of(text);
    CHECK(job.automatic == expected);
    const std::string json = job_json(job).dump();
    CHECK(job_of(json).automatic == expected);
    // Apart from that, it is the job without the key.
    job.automatic = {};
    CHECK(job_json(job).dump() == job_json(job_of(small)).dump());
  }
}

TEST_CASE("recompute_layers requires that recompute is or may become full") {
  for (const std::string recompute : {"full", "auto", "[none, full]"}) {
    const Job job =
        job_of(with("global_batch: 6", "global_batch: 6, recompute_layers: auto, recompute: " + recompute));
    CHECK(job.automatic[Setting::recompute_layers]);
    CHECK(job_of(job_json(job).dump()).automatic == job.automatic);
  }
  const Job two = job_of(with("global_batch: 6", "global_batch: 6, recompute: full, recompute_layers: 2"));
  CHECK(two.execution.recompute_layers == 2);
  CHECK(job_of(job_json(two).dump()).execution == two.execution);
}

TEST_CASE("a list of micro-batches leaves the choice open and reads back as a list") {
  const auto job_with = [](const std::string& sizes) {
    return job_of(with("global_batch: 6", "global_batch: 12, micro_batch: " + sizes));
  };
  const Job job = job_with("[4, 1, 2, 4]");
  CHECK(job.automatic[Setting::micro_batch]);
  CHECK(listed_values(job, Setting::micro_batch) == std::vector<SettingValue>{1, 2, 4});
  CHECK(job.execution.micro_batch == 1);
  const std::string json = job_json(job).dump();
  CHECK(contains(R"("micro_batch":[1,2,4])").match(json));
  CHECK(job_json(job_of(json)).dump() == json);

  const Job single = job_with("[3]");
  CHECK(single.automatic == SettingSet{});
  CHECK(single.listed.empty());
  CHECK(single.execution.micro_batch == 3);

  CHECK_THROWS_WITH(job_with("[]"), contains("`micro_batch`: is empty"));
  CHECK_THROWS_WITH(job_with("[1, 5]"), contains("5 does not divide global_batch 12"));
  CHECK_THROWS_WITH(job_with("[1, auto]"), contains("auto"));
}

TEST_CASE("a list of the values of any open setting leaves the choice among them open") {
  const auto job_with = [](const std::string& parallelism) {
    return job_of(std::string(small) + "parallelism: {" + parallelism + "}\n");
  };
  const Job job =
      job_with("schedule: [interleaved, gpipe, 1f1b, gpipe], gradient_sync: [tree, ring], tensor: [2, 1]");
  CHECK(job.automatic == SettingSet{Setting::schedule, Setting::gradient_sync, Setting::tensor});
  CHECK(choices(job, Setting::schedule) == std::vector<SettingValue>{"interleaved", "gpipe", "1f1b"});
  CHECK(job.execution.schedule == Schedule::one_f_one_b);  // interleaved would require chunks
  CHECK(job.execution.gradient_sync == GradientSync::tree);
  CHECK(job.parallelism.tensor == 1);
  CHECK(allows(job, Setting::gradient_sync, "ring"));
  CHECK_FALSE(allows(job, Setting::gradient_sync, "central-ps"));
  const std::string json = job_json(job).dump();
  CHECK(contains(R"("schedule":["interleaved","gpipe","1f1b"])").match(json));
  CHECK(job_json(job_of(json)).dump() == json);

  CHECK_THROWS_WITH(job_with("schedule: [gpipe, gpip]"), contains("did you mean"));
  CHECK_THROWS_WITH(job_with("schedule: []"), contains("`schedule`: is empty"));
  CHECK_THROWS_WITH(job_with("overlap: [true, false]"), contains("overlap"));
  CHECK_THROWS_WITH(job_with("optimizer_sharding: [zero1, none]"), contains("found a list"));
  CHECK_THROWS_WITH(job_with("schedule: [interleaved, interleaved-blocking]"),
                    contains("only schedules that require `chunks`"));
  // In any order: the first that the sharding can run with.
  for (const char* syncs : {"[tree, ring]", "[ring, tree]"})
    CHECK(
        job_with(std::string("optimizer_sharding: zero1, gradient_sync: ") + syncs).execution.gradient_sync ==
        GradientSync::ring);
  CHECK_THROWS_WITH(job_with("optimizer_sharding: zero1, gradient_sync: [tree, central-ps]"),
                    contains("cannot be combined"));
}

const std::string chain = R"(version: 1
name: chain
model:
  kind: layers
  sequence: 128
  layers:
    - {name: embedding, parameters: 1000, forward_flops: 0 FLOP, output: 2 kB, activation_memory: 0 B}
    - {parameters: 5e3, forward_flops: 0.24 TFLOP, output: 8 MiB, activation_memory: 1 GB, repeat: 3}
    - {name: head, parameters: 10, forward_flops: 1 GFLOP, backward_flops: 3 GFLOP, output: 4 B,
       activation_memory: 1 kB}
training: {global_batch: 6}
)";

TEST_CASE("a model may be a chain of layers") {
  const Job job = job_of(chain);
  const std::vector<Layer> layers = layer_chain(job);
  REQUIRE(layers.size() == 5);
  CHECK(layer_count(job.model) == 5);
  CHECK(sequence_length(job.model) == 128);
  CHECK(layers[0].name == "embedding");
  CHECK(layers[1] == layers[3]);
  CHECK(layers[3].parameters == 5000);
  CHECK(layers[3].forward.value() == 0.24e12);
  CHECK(layers[3].backward.value() == 0.48e12);
  CHECK(layers[3].output.value() == 8388608);
  CHECK(layers[3].activation_memory.value() == 1e9);
  CHECK(layers[4].backward.value() == 3e9);
  const std::string json = job_json(job).dump();
  CHECK(job_json(job_of(json)).dump() == json);
  CHECK(layer_chain(job_of(json)) == layers);
}

TEST_CASE("an invalid chain of layers is reported with position and reason") {
  const auto wrong = [](const std::string& before, const std::string& after) {
    std::string text = chain;
    return error_in(text.replace(text.find(before), before.size(), after));
  };
  CHECK(wrong("repeat: 3", "repeat: 100000") == "job.yaml:8:7: more than 100000 layers in all");
  CHECK(wrong("repeat: 3", "repeats: 3") == "job.yaml:8:92: unknown key `repeats`; did you mean `repeat`?");
  CHECK(wrong("output: 8 MiB", "output: 8") ==
        "job.yaml:8:60: `output`: expected a size with its unit (B, kB, MB, GB, TB, KiB, MiB, GiB, TiB) such "
        "as "
        "`16 GB`; found `8`");
  CHECK(wrong("0.24 TFLOP", "1e20 TFLOP") ==
        "job.yaml:8:40: `forward_flops`: `1e20 TFLOP` is out of range: a FLOP count must be from 0.001 to "
        "1e+24 FLOP");
  CHECK(wrong("parameters: 5e3", "parameters: -1") ==
        "job.yaml:8:20: `parameters`: expected a number from 0 to 1e+18; found `-1`");
  CHECK(error_in("version: 1\nname: n\nmodel: {kind: layers, layers: []}\ntraining: {global_batch: 1}\n") ==
        "job.yaml:3:31: `layers`: must not be empty");
}

TEST_CASE("an invalid job is reported with position and reason") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {with("name: small\n", ""), "job.yaml:1:1: missing key `name`"},
      {with("layers: 4", "layers: 0"),
       "job.yaml:3:36: `layers`: expected a whole number from 1 to 100000; found `0`"},
      {with("layers", "layer"), "job.yaml:3:28: unknown key `layer`; did you mean `layers`?"},
      {with("heads: 2", "heads: 3"),
       "job.yaml:3:57: `heads`: 3 heads do not divide hidden 8; give their width as head_dim"},
      {with("heads: 2", "heads: 2, head_dim: 0"),
       "job.yaml:3:70: `head_dim`: expected a whole number from 1 to 10000000; found `0`"},
      {with("kind: transformer", "kind: transformr"),
       "job.yaml:3:15: `kind`: unknown `transformr`; did you mean `transformer`?"},
      {with("global_batch: 6", "global_batch: 6, micro_batch: 4"),
       "job.yaml:4:42: `micro_batch`: 4 does not divide global_batch 6"},
      {with("global_batch: 6", "global_batch: 6, precision: fp61"),
       "job.yaml:4:40: `precision`: unknown `fp61`; did you mean `fp16`?"},
      {small + "parallelism: {schedule: 1f1d}\n",
       "job.yaml:5:25: `schedule`: unknown `1f1d`; did you mean `1f1b`?"},
      {small + "parallelism: {schedule: interleaved}\n",
       "job.yaml:5:25: `schedule`: `interleaved` requires `chunks`, the number of stages per device"},
      {small + "parallelism: {chunks: 2}\n", "job.yaml:5:23: `chunks`: requires schedule `interleaved`"},
      {small + "parallelism: {schedule: zb-h1, messages: deepspeed}\n",
       "job.yaml:5:42: `messages`: deepspeed cannot run schedule zb-h1: devices would wait for each other; "
       "use "
       "1f1b or gpipe"},
      {small + "parallelism: {pipeline: 0}\n",
       "job.yaml:5:25: `pipeline`: expected a whole number from 1 to 1000000000; found `0`"},
      {small + "compression: {gradients: 0}\n", "job.yaml:5:26: `gradients`: must be above zero; found `0`"},
      {small + "compression: {activations: top-1%}\n",
       "job.yaml:5:28: `activations`: expected `8-bit`, `4-bit`, a ratio or `auto`; found `top-1%`"},
      {small + "compression: {gradients: top-60%}\n",
       "job.yaml:5:26: `gradients`: `top-60%` does not make the gradients smaller; use a smaller share"},
      {small + "compression: {gradients: 16-bit}\n",
       "job.yaml:5:26: `gradients`: expected `8-bit`, `4-bit`, `top-1%` (any share), `rank-4` (any rank), a "
       "ratio or `auto`; found `16-bit`"},
      {small + "compression: {gradients: [1]}\n",
       "job.yaml:5:26: `gradients`: expected a number; found a list"},
      {small + "profile: {analytic: false}\n",
       "job.yaml:5:21: `analytic`: expected true, or the name of a profile in place of the map"},
      {small + "profile: {analytic: true, efficiency: 1.5}\n",
       "job.yaml:5:39: `efficiency`: is more than 1, the peak"},
      {small + "comm_cost: {gradient: 1 GB}\n", "job.yaml:5:12: missing key `activation`"},
      {small + "comm_cost: {gradient: 1 GB, activation: 1 GB, stages: auto}\n",
       "job.yaml:5:55: `stages`: expected a whole number from 1 to 1000000000; found `auto`"},
      {small + "parallelism: {pipeline: 2, alike: true}\n",
       "job.yaml:5:28: key `alike` was renamed to `uniform_pipelines`"},
      {small + "compression: {adaptive: 1 Gbps}\n",
       "job.yaml:5:15: key `adaptive` was renamed to `bandwidth_threshold`"},
      {with("global_batch: 6", "global_batch: 6, alike: true"),
       "job.yaml:4:29: unknown key `alike`; known: `global_batch`, `micro_batch`, `precision`, `matmul`, "
       "`optimizer`, `recompute`, `recompute_layers`"},
      {with("global_batch: 6", "global_batch: 6, recompute_layers: 1"),
       "job.yaml:4:47: `recompute_layers`: requires `recompute: full`"},
      {with("global_batch: 6", "global_batch: 6, recompute: auto, recompute_layers: 1"),
       "job.yaml:4:64: `recompute_layers`: requires `recompute: full`"},
      {with("global_batch: 6", "global_batch: 6, recompute: [none, mlp], recompute_layers: auto"),
       "job.yaml:4:71: `recompute_layers`: requires `recompute: full`"},
      {with("global_batch: 6", "global_batch: 6, recompute: full, recompute_layers: 0"),
       "job.yaml:4:64: `recompute_layers`: expected a whole number from 1 to 1000000000; found `0`"},
      {with("global_batch: 6", "global_batch: 6, recompute: full, recompute_layers: 9"),
       "job.yaml:4:64: `recompute_layers`: 9 exceeds the 4 layers of the model"},
      {with("global_batch: 6", "global_batch: auto"),
       "job.yaml:4:26: `global_batch`: expected a whole number from 1 to 1000000000; found `auto`"},
      {with("global_batch: 6", "global_batch: 6, recompute: aoto"),
       "job.yaml:4:40: `recompute`: unknown `aoto`; known: `none`, `moe_act`, `selective`, `mlp`, "
       "`full`, `as-needed`, `offload`"},
      {small + "parallelism: {schedule: auto, chunks: 2}\n",
       "job.yaml:5:39: `chunks`: cannot be combined with several schedules, because the planner then "
       "chooses `chunks`; remove `chunks`, or give only `interleaved`"},
      {small + "parallelism: {schedule: [1f1b, interleaved], chunks: 2}\n",
       "job.yaml:5:54: `chunks`: cannot be combined with several schedules, because the planner then "
       "chooses `chunks`; remove `chunks`, or give only `interleaved`"},
  };
  for (const auto& [text, message] : cases) CHECK(error_in(text) == message);
}

TEST_CASE("a chain of layers may be a model of images, which have no sequence") {
  const auto with = [](const std::string& keys) {
    return "version: 1\nname: n\nmodel: {kind: layers" + keys +
           ", layers: [{parameters: 1, forward_flops: 1 FLOP, output: 1 B, activation_memory: 1 B}]}\n"
           "training: {global_batch: 1}\n";
  };
  CHECK(model_input(job_of(with("")).model) == ModelInput::tokens);
  CHECK(model_input(job_of(with(", input: tokens, sequence: 4")).model) == ModelInput::tokens);
  const Job images = job_of(with(", input: images"));
  CHECK(model_input(images.model) == ModelInput::images);
  CHECK(sequence_length(images.model) == 1);
  CHECK(job_of(job_json(images).dump()).model == images.model);
  CHECK(job_json(images)["model"]["input"] == "images");
  CHECK_FALSE(job_json(job_of(with("")))["model"].contains("input"));
  CHECK_FALSE(job_json(images)["model"].contains("input_size"));
  const Job sized = job_of(with(", input: images, input_size: 300 kB"));
  CHECK(input_bytes(sized.model) == 300e3);
  CHECK(job_of(job_json(sized).dump()).model == sized.model);
  CHECK(error_in(with(", input: images, sequence: 4")) ==
        "job.yaml:3:48: `sequence`: images have no sequence; remove `sequence`, or set `input` to tokens");
  CHECK(error_in(with(", input: pictures")) ==
        "job.yaml:3:30: `input`: unknown `pictures`; known: `tokens`, `images`");
}

// `attention` is what selective recomputation repeats, and `head` is never recomputed: separate parts of the
// forward pass.
TEST_CASE("layers of a chain may define what recomputation repeats") {
  const auto layer = [](const std::string& more) {
    return job_of(
        "version: 1\nname: n\nmodel: {kind: layers, layers: [{parameters: 1, forward_flops: 10 FLOP, output: "
        "1 B, "
        "activation_memory: 8 B" +
        more + "}]}\ntraining: {global_batch: 1}\n");
  };
  const Job job =
      layer(", attention_flops: 3 FLOP, head_flops: 7 FLOP, attention_memory: 5 B, replicated_memory: 3 B");
  const Layer only = layer_chain(job).front();
  CHECK(only.attention.value() == 3);
  CHECK(only.head.value() == 7);
  CHECK(only.attention_memory.value() == 5);
  CHECK(only.replicated_memory.value() == 3);
  CHECK(layer_chain(job_of(job_json(job).dump())).front() == only);
  CHECK(layer_chain(layer("")).front().head.value() == 0);
  CHECK_THAT(error_message([&] { layer(", attention_flops: 4 FLOP, head_flops: 7 FLOP"); }),
             contains("`attention_flops`: exceeds the total of which it is a part"));
  CHECK_THAT(error_message([&] { layer(", attention_memory: 5 B, replicated_memory: 4 B"); }),
             contains("`replicated_memory`: must be at most `activation_memory` − `attention_memory`"));
  CHECK_THAT(error_message([&] { layer(", attention_memory: 9 B"); }),
             contains("`attention_memory`: exceeds the total of which it is a part"));
}

TEST_CASE("scatter_gather requires sequence_parallel: false") {
  const auto error_with = [](const std::string& keys) {
    return error_in(small + "parallelism: {tensor: 2, " + keys + "}\n");
  };
  CHECK_THAT(error_with("scatter_gather: true"),
             contains("`scatter_gather`: requires `sequence_parallel: false`"));
  CHECK(job_of(small + "parallelism: {scatter_gather: false}\n").parallelism.sequence_parallel);
}

TEST_CASE("a sharded optimizer requires a synchronization with halves, and zero2 single devices") {
  const auto job_with = [](const std::string& keys) {
    return job_of(small + "parallelism: {" + keys + "}\n");
  };
  const auto error_with = [](const std::string& keys) {
    return error_in(small + "parallelism: {" + keys + "}\n");
  };
  for (const char* sync : {"tree", "central-ps"})
    CHECK(error_with("optimizer_sharding: zero1, gradient_sync: " + std::string(sync)) ==
          "job.yaml:5:35: `optimizer_sharding`: zero1 cannot be combined with gradient_sync " +
              std::string(sync) + "; use ring, sharded-ps or hierarchical");
  CHECK(error_with("optimizer_sharding: zero2, gradient_sync: hierarchical") ==
        "job.yaml:5:35: `optimizer_sharding`: zero2 cannot be combined with gradient_sync hierarchical; use "
        "ring or sharded-ps");
  CHECK(job_with("optimizer_sharding: zero1, gradient_sync: hierarchical").execution.optimizer_sharding ==
        OptimizerSharding::zero1);
  CHECK(error_with("optimizer_sharding: zero4") ==
        "job.yaml:5:35: `optimizer_sharding`: unknown `zero4`; did you mean `zero1`?");
  CHECK(error_with("optimizer_sharding: zero2, pipeline: 2") ==
        "job.yaml:5:35: `optimizer_sharding`: zero2 requires pipeline 1; use zero1, or remove `pipeline`");
  CHECK(error_with("optimizer_sharding: zero3, tensor: 4") ==
        "job.yaml:5:35: `optimizer_sharding`: zero3 requires tensor 1; use zero1, or remove `tensor`");
  CHECK(error_with("optimizer_sharding: zero2, schedule: interleaved, chunks: 2") ==
        "job.yaml:5:35: `optimizer_sharding`: zero2 cannot be combined with schedule interleaved; use 1f1b");
  const Job open = job_with("optimizer_sharding: zero2, pipeline: auto, tensor: auto, gradient_sync: auto");
  CHECK(open.parallelism.pipeline == 1);
  CHECK_FALSE(open.automatic[Setting::tensor]);
  CHECK(open.automatic[Setting::gradient_sync]);
  CHECK(job_with("optimizer_sharding: zero1, pipeline: auto, gradient_sync: auto")
            .automatic[Setting::gradient_sync]);
  CHECK(job_with("optimizer_sharding: auto, gradient_sync: tree").automatic[Setting::optimizer_sharding]);
  CHECK(job_json(job_with("optimizer_sharding: none")).dump() == job_json(job_of(small)).dump());
}

TEST_CASE("offload cannot be combined with split backward passes and partitioned gradients") {
  const auto job_text = [](const std::string& recompute, const std::string& parallelism) {
    return "version: 1\nname: j\nmodel: {preset: gpt3-xl}\ntraining: {global_batch: 4, recompute: " +
           recompute + "}\nparallelism: {" + parallelism + "}\n";
  };
  CHECK(error_in(job_text("offload", "schedule: zb-h1")) ==
        "job.yaml:5:25: `schedule`: zb-h1 cannot be combined with recompute offload; use 1f1b");
  CHECK(error_in(job_text("offload", "schedule: 1f1b, gradient_sync: ring, optimizer_sharding: zero2")) ==
        "job.yaml:5:72: `optimizer_sharding`: zero2 cannot be combined with recompute offload; use full");
  for (const char* open : {"auto", "[offload, full]"})
    CHECK(job_of(job_text(open, "schedule: zb-h1, gradient_sync: ring, optimizer_sharding: zero1"))
              .automatic[Setting::recompute]);
  CHECK(job_of(job_text("offload", "schedule: [zb-h1, 1f1b]")).automatic[Setting::schedule]);
}

TEST_CASE("degrees inside a stage fit each other and the model") {
  const auto with_degrees = [](const std::string& degrees, const std::string& model) {
    return with("vocabulary: 100}", "vocabulary: 100" + model + "}") + "parallelism: {" + degrees + "}\n";
  };
  const std::string experts = ", experts: {count: 6, per_token: 2, width: 8}";
  const auto error_of = [&](const std::string& degrees, const std::string& model = "") {
    return error_in(with_degrees(degrees, model));
  };
  CHECK(error_of("expert: 2") ==
        "job.yaml:5:23: `expert`: expert-parallel degree 2 requires a model with experts");
  CHECK(error_of("expert: 4", experts) ==
        "job.yaml:5:23: `expert`: expert-parallel degree 4 does not divide the 6 experts of the model");
  CHECK(error_of("expert: 2", experts) ==
        "job.yaml:5:23: `expert`: micro_batch 1 is not a multiple of stage_data 2, which expert 2 requires "
        "with "
        "tensor 1 and context 1");
  CHECK(
      error_of("stage_data: 3, expert: 2, tensor: 1", experts) ==
      "job.yaml:5:38: `expert`: expert-parallel degree 2 does not divide the devices of a stage, tensor 1 × "
      "context 1 × stage_data 3");
  CHECK(error_of("context: 3") == "job.yaml:5:24: `context`: sequence 16 is not a multiple of 2 × context 3");
  CHECK(error_of("optimizer_sharding: zero2, gradient_sync: ring, context: 2")
            .ends_with("zero2 requires context 1; use zero1, or remove `context`"));
  const Job open = job_of(with_degrees("tensor: auto, expert: 2, context: 4", experts));
  CHECK(open.execution.expert == 2);
  CHECK(open.execution.context == 4);
  CHECK_FALSE(open.execution.stage_data);
  CHECK(job_of(with_degrees("expert: auto, context: [1, 2]", experts)).automatic[Setting::expert]);
}

TEST_CASE("a model must state its kind") {
  CHECK(error_in("version: 1\nname: g\nmodel: {layers: 3}\ntraining: {global_batch: 1}\n") ==
        "job.yaml:3:8: `kind` (transformer, layers or graph), `preset` or `hf` is missing");
}

TEST_CASE("a job for a target has the settings that it runs and may not have others") {
  const Job job = job_of(small + "target: megatron\n");
  CHECK(job.target == Target::megatron);
  CHECK(job.automatic[Setting::schedule]);
  CHECK(job.execution.gradient_sync == GradientSync::ring);
  CHECK(job.execution.tied_embedding_sync);
  CHECK(job.execution.iteration_barrier);
  CHECK(job.parallelism.uniform_pipelines);
  CHECK(job.training.optimizer == Optimizer::adam_20);
  CHECK(job_json(job_of(job_json(job).dump())).dump() == job_json(job).dump());
  CHECK_FALSE(job_of(small).target);

  const auto error_with = [](const std::string& text) { return error_in(text + "target: dtfm\n"); };
  CHECK(error_with(small + "parallelism: {schedule: 1f1b}\n") ==
        "job.yaml:5:25: `schedule`: target dtfm does not run `1f1b`; expected `gpipe`, or no such key");
  CHECK(error_with(with("global_batch: 6", "global_batch: 6, recompute: none")) ==
        "job.yaml:4:40: `recompute`: target dtfm does not run `none`; expected `full`, or no such key");
  CHECK(error_with(with("global_batch: 6", "global_batch: 6, recompute: full, recompute_layers: 2")) ==
        "job.yaml:4:64: `recompute_layers`: target dtfm does not run `2`; expected `none`, or no such key");
  CHECK(error_with(small + "compression: {gradients: 8-bit}\n") ==
        "job.yaml:5:26: `gradients`: target dtfm does not run `8-bit`; expected `1`, or no such key");
  const Job open = job_of(small + "parallelism: {schedule: auto, gradient_sync: auto}\ntarget: deepspeed\n");
  CHECK(open.execution.schedule == Schedule::one_f_one_b_blocking);
  CHECK_FALSE(open.automatic[Setting::schedule]);
  CHECK_FALSE(open.automatic[Setting::gradient_sync]);
  CHECK(error_in(small + "target: megatorn\n") ==
        "job.yaml:5:9: `target`: unknown `megatorn`; did you mean `megatron`?");
  CHECK(error_in(small + "target: varuna\n") ==
        "job.yaml:5:9: `target`: varuna was removed; use pytorch, megatron or deepspeed");
  CHECK(error_in(small + "target: petals\n") ==
        "job.yaml:5:9: `target`: petals takes plans that are made without a target, because it only fine-tunes; "
        "plan without one, and use dtfm-export --to petals");
}
