#include "planner/io/job_reader.hpp"

#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "planner/core/index.hpp"
#include "planner/io/suggest.hpp"
#include "planner/io/text_file.hpp"
#include "planner/io/yaml_reader.hpp"

namespace dtfm {

extern const std::string_view gpt3_xl_yaml;  // the text of configs/gpt3-xl.yaml

namespace {

constexpr int most_layers = 100'000, most_width = 10'000'000, most_count = 1'000'000'000;
constexpr double most_parameters = 1e18;  // of a layer

int whole(const YamlValue& value, int least, int most) {
  return static_cast<int>(value.integer(least, most));
}

int required_count(const YamlMap& map, std::string_view key, int most) {
  return whole(map.required(key), 1, most);
}

/// The word under `key`, which stays `word` where the key is missing.
void read_choice(const YamlMap& map, std::string_view key, std::initializer_list<std::string_view> words,
                 std::string& word) {
  if (const auto value = map.optional(key)) word = std::string(words.begin()[value->choice(words)]);
}

/// Nothing for `auto` and where the key is missing.
std::optional<int> count_or_auto(const YamlMap& map, std::string_view key) {
  const auto value = map.optional(key);
  if (!value || value->is_word("auto")) return std::nullopt;
  return whole(*value, 1, most_count);
}

std::optional<int> optional_count(const YamlMap& map, std::string_view key, int least) {
  const auto value = map.optional(key);
  return value ? std::optional(whole(*value, least, most_count)) : std::nullopt;
}

Transformer read_transformer(const YamlValue& value) {
  const YamlMap map = value.map({"kind", "layers", "hidden", "heads", "sequence", "vocabulary"});
  Transformer model{required_count(map, "layers", most_layers), required_count(map, "hidden", most_width),
                    required_count(map, "heads", most_width), required_count(map, "sequence", most_count),
                    required_count(map, "vocabulary", most_count)};
  if (model.hidden % model.heads != 0)
    throw map.required("heads").value_error(
        fmt::format("{} heads do not divide hidden {}", model.heads, model.hidden));
  return model;
}

Layer read_layer(const YamlMap& map) {
  Layer layer;
  layer.name = "layer";
  if (const auto name = map.optional("name")) layer.name = name->text();
  layer.parameters = map.required("parameters").number(0, most_parameters);
  layer.forward = map.required("forward_flops").flops();
  const auto backward = map.optional("backward_flops");
  layer.backward = backward ? backward->flops() : 2 * layer.forward;
  layer.output = map.required("output").bytes();
  layer.activation_memory = map.required("activation_memory").bytes();
  return layer;
}

LayerChain read_layers(const YamlValue& value) {
  const YamlMap map = value.map({"kind", "layers", "sequence"});
  LayerChain model;
  model.sequence = optional_count(map, "sequence", 1).value_or(1);
  const YamlValue layers = map.required("layers");
  for (const YamlValue& item : layers.list()) {
    const YamlMap entry = item.map(
        {"name", "parameters", "forward_flops", "backward_flops", "output", "activation_memory", "repeat"});
    const int repeat = optional_count(entry, "repeat", 1).value_or(1);
    if (repeat > most_layers - static_cast<int>(model.layers.size()))
      throw entry.error(fmt::format("more than {} layers in all", most_layers));
    model.layers.insert(model.layers.end(), at(repeat), read_layer(entry));
  }
  if (model.layers.empty()) throw layers.value_error("must not be empty");
  return model;
}

Model read_model(const YamlValue& value) {
  const YamlValue kind =
      value.map({"kind", "layers", "hidden", "heads", "sequence", "vocabulary", "file"}).required("kind");
  switch (kind.choice({"transformer", "layers", "graph"})) {
    case 0:
      return read_transformer(value);
    case 1:
      return read_layers(value);
    default:
      throw kind.value_error(fmt::format(
          "{} is not supported yet by this version; `transformer` and `layers` are", in_quotes(kind.text())));
  }
}

Training read_training(const YamlValue& value) {
  const YamlMap map = value.map({"global_batch", "micro_batch", "precision", "optimizer", "recompute"});
  Training training;
  training.global_batch = required_count(map, "global_batch", most_count);
  if (const auto micro_batch = map.optional("micro_batch")) {
    training.micro_batch = whole(*micro_batch, 1, most_count);
    if (training.global_batch % training.micro_batch != 0)
      throw micro_batch->value_error(
          fmt::format("{} does not divide global_batch {}", training.micro_batch, training.global_batch));
  }
  read_choice(map, "precision", {"fp16", "bf16", "fp32"}, training.precision);
  read_choice(map, "optimizer", {"adam-16", "adam-18", "adam-20", "sgd-12", "sgd-8", "host-offload"},
              training.optimizer);
  read_choice(map, "recompute", {"none", "selective", "full"}, training.recompute);
  return training;
}

Parallelism read_parallelism(const YamlValue& value) {
  const YamlMap map =
      value.map({"pipeline", "data", "tensor", "schedule", "chunks", "flush", "gradient_sync", "overlap"});
  Parallelism parallelism;
  parallelism.pipeline = count_or_auto(map, "pipeline");
  parallelism.data = count_or_auto(map, "data");
  parallelism.tensor = count_or_auto(map, "tensor").value_or(1);
  read_choice(map, "schedule", {"gpipe", "1f1b", "interleaved"}, parallelism.schedule);
  read_choice(map, "gradient_sync", {"sharded-ps", "central-ps", "ring", "tree", "hierarchical"},
              parallelism.gradient_sync);
  parallelism.chunks = optional_count(map, "chunks", 2);
  parallelism.flush = optional_count(map, "flush", 1);
  if (const auto overlap = map.optional("overlap")) parallelism.overlap = overlap->boolean();
  const bool interleaved = parallelism.schedule == "interleaved";
  if (interleaved && !parallelism.chunks)
    throw map.required("schedule")
        .value_error("`interleaved` needs `chunks`, the stages that a device holds");
  if (!interleaved && parallelism.chunks)
    throw map.required("chunks").value_error("is for schedule `interleaved` alone");
  return parallelism;
}

Compression read_compression(const YamlValue& value) {
  const YamlMap map = value.map({"activations", "gradients", "throughput"});
  Compression compression;
  if (const auto activations = map.optional("activations")) compression.activations = activations->ratio();
  if (const auto gradients = map.optional("gradients")) compression.gradients = gradients->ratio();
  if (const auto throughput = map.optional("throughput")) compression.throughput = throughput->rate();
  return compression;
}

ProfileSource read_profile(const YamlValue& value) {
  if (!value.is_map()) return {value.text()};
  const YamlMap map = value.map({"analytic", "efficiency"});
  const YamlValue analytic = map.required("analytic");
  if (!analytic.boolean())
    throw analytic.value_error("expected true, or the name of a profile in place of the map");
  ProfileSource source;
  if (const auto efficiency = map.optional("efficiency")) {
    source.efficiency = efficiency->ratio();
    if (source.efficiency > 1) throw efficiency->value_error("is more than 1, the peak");
  }
  return source;
}

CommVolumes read_comm_cost(const YamlValue& value) {
  const YamlMap map = value.map({"gradient", "activation"});
  return {map.required("gradient").bytes(), map.required("activation").bytes()};
}

}  // namespace

Job parse_job(std::string text, std::string file) {
  const YamlDocument document(std::move(text), std::move(file));
  const YamlMap map = versioned_map(
      document, "a job",
      {"version", "name", "model", "training", "parallelism", "compression", "profile", "comm_cost"});
  Job job;
  job.name = map.required("name").text();
  job.model = read_model(map.required("model"));
  job.training = read_training(map.required("training"));
  if (const auto parallelism = map.optional("parallelism")) job.parallelism = read_parallelism(*parallelism);
  if (const auto compression = map.optional("compression")) job.compression = read_compression(*compression);
  if (const auto profile = map.optional("profile")) job.profile = read_profile(*profile);
  if (const auto volumes = map.optional("comm_cost")) job.comm_cost = read_comm_cost(*volumes);
  return job;
}

Job default_job() {
  return parse_job(std::string(gpt3_xl_yaml), "configs/gpt3-xl.yaml");
}

Job read_job(const std::filesystem::path& file) {
  return parse_job(read_file(file, yaml_size_limit), file.string());
}

}  // namespace dtfm
