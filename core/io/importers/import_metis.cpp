// Imports profiles of Metis (USENIX ATC 2024), DeviceType.GPU_tpT_bsB.json, one file per tensor degree and
// micro-batch:
//   {"model": {"parameters": {"parameters_per_layer_bytes": [...]}},
//    "execution_time": {"layer_compute_total_ms": [...], "optimizer_time_ms": ...}}
// The first layer is the embedding, the last one the head. The time of a layer is the sum of forward and
// backward.
#include <charconv>
#include <filesystem>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/io/importers/import_profile.hpp"
#include "core/io/text/json_reader.hpp"
#include "core/io/text/suggest.hpp"

namespace dtfm::io {
namespace {

using Phase = LayerSamples::Phase;

constexpr int max_file_bytes = 1'000'000;
constexpr double ms_per_s = 1000, max_bytes = 1e18;
// The backward pass has two matrix products for each one of the forward pass: the gradients with respect to
// the weights and to the inputs.
constexpr double forward_share = 1.0 / 3;

struct FileName {
  std::string gpu;
  int tensor = 0, micro_batch = 0;
};

/// Removes `word` and the number that follows it from the end of `text` and returns the number; nullopt if
/// the text does not end that way.
std::optional<int> consume_number_suffix(std::string_view& text, std::string_view word) {
  const std::size_t begin = text.rfind(word);
  if (begin == std::string_view::npos) return std::nullopt;
  const std::string_view digits = text.substr(begin + word.size());
  int number = 0;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (status != std::errc() || end != digits.data() + digits.size() || number < 1 || number > max_file_bytes)
    return std::nullopt;
  text = text.substr(0, begin);
  return number;
}

FileName parse_file_name(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  std::string_view rest = name;
  constexpr std::string_view begin = "DeviceType.", end = ".json";
  if (rest.starts_with(begin) && rest.ends_with(end)) {
    rest = rest.substr(begin.size(), rest.size() - begin.size() - end.size());
    const auto micro_batch = consume_number_suffix(rest, "_bs");
    const auto tensor = micro_batch ? consume_number_suffix(rest, "_tp") : std::nullopt;
    if (tensor && !rest.empty()) return {std::string(rest), *tensor, *micro_batch};
  }
  throw Error(path,
              "expected a file name such as DeviceType.A100_tp2_bs4.json (tensor degree 2, micro-batch 4)");
}

/// Fraction of the model's parameters that each layer has; empty if the file does not give them.
std::vector<double> parameter_shares(const JsonCursor& root, std::size_t layers) {
  const auto model = root.optional("model");
  const auto parameters = model ? model->optional("parameters") : std::nullopt;
  const auto list = parameters ? parameters->optional("parameters_per_layer_bytes") : std::nullopt;
  if (!list) return {};
  if (list->array_size("bytes") != layers) list->fail(fmt::format("expected {} layers", layers));
  std::vector<double> shares;
  for (std::size_t i = 0; i < layers; ++i) shares.push_back(list->at(i).as_number(0, max_bytes));
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  if (sum == 0) return {};
  for (double& share : shares) share /= sum;
  return shares;
}

void read_metis_file(const ImportFile& file, const FileName& size, const std::vector<int>& kinds,
                     LayerSamples& samples) {
  const nlohmann::json json = parse_json(file.text, file.name);
  const JsonCursor root(json, file.name), times = root.required("execution_time"),
                                          list = times.required("layer_compute_total_ms");
  if (list.array_size("milliseconds") != kinds.size())
    list.fail(fmt::format("expected {} layers, including embedding and head; found {}", kinds.size(),
                          list.array_size("milliseconds")));
  const auto optimizer = times.optional("optimizer_time_ms");
  const double update = optimizer ? optimizer->as_number(0, max_imported_seconds) / ms_per_s : 0;
  const std::vector<double> shares = parameter_shares(root, kinds.size());
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const double both = list.at(i).as_number(0, max_imported_seconds) / ms_per_s;
    samples.add(kinds[i], size.micro_batch, size.tensor, Phase::forward, both * forward_share);
    samples.add(kinds[i], size.micro_batch, size.tensor, Phase::backward, both * (1 - forward_share));
    if (optimizer && !shares.empty())
      samples.add(kinds[i], size.micro_batch, size.tensor, Phase::update, update * shares[i]);
  }
}

bool has_updates(const LayerProfile& profile) {
  for (const ProfileRow& row : profile.rows)
    if (row.update) return true;
  return false;
}

}  // namespace

LayerProfile import_metis(std::span<const ImportFile> files, const ImportSettings& settings) {
  const LayerKinds kinds = layer_kinds(settings.job.model, bytes_per_element(settings.job.training));
  const std::vector<int> listed = kinds_in_profiler_order(kinds);
  LayerSamples samples(kinds);
  std::set<std::pair<int, int>> sizes;
  const std::string gpu = parse_file_name(files.front().name).gpu;
  for (const ImportFile& file : files) {
    const FileName name = parse_file_name(file.name);
    if (name.gpu != gpu)
      throw Error(file.name,
                  fmt::format("is for GPU {}, but the first file is for {}", quote(name.gpu), quote(gpu)));
    if (!sizes.emplace(name.tensor, name.micro_batch).second)
      throw Error(file.name, fmt::format("is the second file for tensor degree {} and micro-batch {}",
                                         name.tensor, name.micro_batch));
    read_metis_file(file, name, listed, samples);
  }
  LayerProfile profile = make_imported_profile(files, settings, "Metis", "");
  profile.rows = samples.rows(files.front().name);
  profile.includes_all_reduces = has_tensor_parallelism(profile);
  profile.derivation +=
      "medians over the layers of a kind, spread between their 10th and 90th percentile; forward and "
      "backward are one number in the file, assumed to be split 1 : 2; ";
  profile.derivation +=
      has_updates(profile)
          ? "the optimizer's time is that of the file (Metis itself counts it twice), assumed "
            "to be proportional to parameters"
          : "update times are unknown";
  return profile;
}

}  // namespace dtfm::io
