#include "tests/validation/measured_layers.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/index.hpp"
#include "core/io/readers/gpu_catalogue.hpp"
#include "core/io/readers/profile_reader.hpp"
#include "core/io/text/text_file.hpp"

namespace dtfm {
using namespace io;
namespace {

using Quantity = LayerSample::Quantity;

Gpu gpu_named(const std::string& name) {
  for (const Gpu& gpu : built_in_gpus())
    if (gpu.name == name) return gpu;
  throw Error("", fmt::format("no GPU {} in the catalogue", name));
}

Layer kind_named(const std::vector<Layer>& kinds, const std::string& name) {
  for (const Layer& kind : kinds)
    if (kind.name == name) return kind;
  throw Error("", fmt::format("no kind of layer {} in the model", name));
}

/// Adds those of forward, backward and update that were measured.
void add_times(LayerSample sample, const std::array<double, 3>& seconds, std::vector<LayerSample>& samples) {
  for (const Quantity what : {Quantity::forward, Quantity::backward, Quantity::update}) {
    sample.what = what;
    sample.seconds = seconds[static_cast<std::size_t>(what)];
    if (sample.seconds > 0) samples.push_back(sample);
  }
}

void add_profile(const std::filesystem::path& file, std::vector<LayerSample>& samples) {
  const LayerProfile profile = read_profile(file);
  if (profile.source == LayerProfile::Source::estimated || !profile.shape) return;
  if (profile.derivation.starts_with("Sailor")) return;  // add_sailor reads the published files
  Transformer shape = *profile.shape;
  shape.layers = 1;
  LayerSample sample;
  sample.profile = fmt::format("{}, {}, {}", profile.gpu, profile.model, name_of(profile.precision));
  sample.model = profile.model;
  sample.gpu = gpu_named(profile.gpu);
  sample.training.precision = profile.precision;
  sample.is_held_out = profile.source == LayerProfile::Source::measured;
  const std::vector<Layer> kinds = layer_kinds(shape, bytes_per_element(sample.training)).kinds;
  for (const ProfileRow& row : profile.rows) {
    if (profile.source == LayerProfile::Source::imported && row.kind != "block") continue;
    sample.layer = kind_named(kinds, row.kind);
    sample.micro_batch = row.micro_batch;
    sample.tensor = row.tensor;
    add_times(sample, {row.forward.median_s, row.backward.median_s, row.update.value_or(Timing{}).median_s},
              samples);
  }
}

struct SailorModel {
  const char *folder, *name;
  Transformer shape;  // as trained there, according to the models' publications
  bool has_head;      // whether the last layer is a head rather than a norm
};

struct SailorGpu {
  const char *folder, *name;
};

const std::array sailor_models = {
    SailorModel{"OPT-350", "OPT-350M", Transformer{24, 1024, 16, 2048, 50272}, true},
    SailorModel{"GPT-Neo-2.7", "GPT-Neo-2.7B", Transformer{32, 2560, 20, 2048, 50257}, false}};
const std::array sailor_gpus = {SailorGpu{"V100-16", "V100-16GB"}, SailorGpu{"A100-40", "A100-40GB"}};

using Json = nlohmann::json;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

/// Returns the median over the layers between the first and the last.
std::array<double, 3> median_block(const Json& layers) {
  std::array<double, 3> result{};
  for (std::size_t i = 0; i < result.size(); ++i) {
    std::vector<double> values;
    for (std::size_t layer = 1; layer + 1 < layers.size(); ++layer)
      values.push_back(layers.at(std::to_string(layer)).at(i).get<double>());
    result[i] = median(std::move(values));
  }
  return result;
}

/// Returns the state that an update time of the file refers to: two blocks with both ends of the model.
Layer updated(const std::vector<Layer>& kinds, bool has_head) {
  Layer layer;
  layer.name = "two blocks and both ends";
  const Layer head = kind_named(kinds, "head");
  layer.parameters = kind_named(kinds, "embedding").parameters + 2 * kind_named(kinds, "block").parameters +
                     head.parameters - (has_head ? 0 : head.tied_parameters);
  return layer;
}

/// Adds the layers of one micro-batch size and tensor degree. `sample` holds model and GPU.
void add_layers(LayerSample sample, const SailorModel& model, const Json& layers,
                std::vector<LayerSample>& samples) {
  const std::vector<Layer> kinds = layer_kinds(model.shape, bytes_per_element(sample.training)).kinds;
  const auto times = [&](std::size_t layer) {
    return layers.at(std::to_string(layer)).get<std::array<double, 3>>();
  };
  const std::array<double, 3> block = median_block(layers);
  sample.layer = kind_named(kinds, "block");
  add_times(sample, {block[0], block[1], 0}, samples);
  sample.layer = updated(kinds, model.has_head);
  add_times(sample, {0, 0, block[2]}, samples);
  if (!model.has_head) return;
  sample.layer = kind_named(kinds, "embedding");
  add_times(sample, {times(0)[0], 0, 0}, samples);  // the backward time is 3 µs, so none was computed
  const std::array<double, 3> head = times(layers.size() - 1);
  sample.layer = kind_named(kinds, "head");
  add_times(sample, {head[0], head[1], 0}, samples);
}

void add_sailor(const std::filesystem::path& folder, std::vector<LayerSample>& samples) {
  for (const SailorModel& model : sailor_models)
    for (const SailorGpu& gpu : sailor_gpus) {
      const auto file = folder / model.folder / gpu.folder / "profile.json";
      if (!std::filesystem::exists(file)) continue;
      LayerSample sample;
      sample.training.precision = Precision::tf32;
      sample.model = model.name;
      sample.gpu = gpu_named(gpu.name);
      sample.profile =
          fmt::format("{}, {}, {}", gpu.name, model.name, sample.gpu.peak_tf32 ? "tf32" : "fp32");
      const Json profile = Json::parse(read_file(file, 1 << 20));
      for (const auto& [micro_batch, degrees] : profile.items())
        for (const auto& [tensor, layers] : degrees.items()) {
          sample.micro_batch = std::stoi(micro_batch);
          sample.tensor = std::stoi(tensor);
          add_layers(sample, model, layers, samples);
        }
    }
}

}  // namespace

std::vector<LayerSample> read_measured_layers(const std::string& configs, const std::string& data) {
  std::vector<LayerSample> samples;
  std::set<std::filesystem::path> files;  // in sorted order
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(configs) / "profiles"))
    if (entry.path().extension() == ".json") files.insert(entry.path());
  for (const auto& file : files) add_profile(file, samples);
  add_sailor(std::filesystem::path(data) / "layer-profiles" / "sailor", samples);
  return samples;
}

bool is_used_in_fit(const LayerSample& sample) {
  return !sample.is_held_out && sample.training.precision != Precision::fp16 && sample.tensor == 1 &&
         (sample.what == LayerSample::Quantity::update || sample.layer.name == "block");
}

bool is_used_in_16_bit_fit(const LayerSample& sample) {
  return !sample.is_held_out && sample.training.precision == Precision::fp16 && sample.tensor == 1 &&
         sample.layer.name == "block" && sample.what != LayerSample::Quantity::update;
}

bool is_held_out_block(const LayerSample& sample) {
  return sample.is_held_out && sample.layer.name == "block" && sample.what != LayerSample::Quantity::update;
}

std::vector<LayerSample> filter_samples(const std::vector<LayerSample>& samples,
                                        const std::function<bool(const LayerSample&)>& holds) {
  std::vector<LayerSample> result;
  std::copy_if(samples.begin(), samples.end(), std::back_inserter(result), holds);
  return result;
}

}  // namespace dtfm
