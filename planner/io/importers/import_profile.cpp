#include "planner/io/importers/import_profile.hpp"

#include <utility>

#include <fmt/format.h>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"
#include "planner/io/text/suggest.hpp"
#include "planner/io/text/text_file.hpp"

namespace dtfm::io {
namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;

constexpr ImportFormat formats[] = {
    {"sailor", "one profile.json", 1, 16 * mebibyte, false, import_sailor},
    {"metis", "one or several DeviceType.GPU_tpT_bsB.json", 256, 16 * mebibyte, false, import_metis},
    {"kineto", "one Chrome trace of PyTorch's profiler", 1, 512 * mebibyte, true, import_kineto}};

ImportFile read_import_file(const std::filesystem::path& path, std::size_t most_bytes) {
  const std::string name = checked_text(path.string(), "the name of a file");
  std::string text = read_file(path, most_bytes);
  if (text.starts_with("\x1f\x8b")) throw Error(name, "is compressed: unpack it first (gunzip)");
  return {name, checked_text(std::move(text), name)};
}

void check_sizes(const ImportFormat& format, const ImportSettings& settings) {
  if (format.is_of_one_size && (!settings.micro_batch || !settings.tensor))
    throw Error(settings.micro_batch ? "--tensor" : "--micro-batch",
                fmt::format("is missing: {} files do not say it", format.name));
  if (!format.is_of_one_size && (settings.micro_batch || settings.tensor))
    throw Error(settings.micro_batch ? "--micro-batch" : "--tensor",
                fmt::format("is in the {} files, and cannot be given", format.name));
}

}  // namespace

std::span<const ImportFormat> import_formats() {
  return formats;
}

LayerProfile import_profile(const ImportFormat& format, std::span<const std::filesystem::path> paths,
                            const ImportSettings& settings) {
  if (paths.empty() || paths.size() > format.most_files)
    throw Error("--import",
                fmt::format("{} reads {}; found {} files", format.name, format.files, paths.size()));
  check_sizes(format, settings);
  std::vector<ImportFile> files;
  for (const auto& path : paths) files.push_back(read_import_file(path, format.most_bytes));
  return format.import(files, settings);
}

void LayerSamples::add(int kind, int micro_batch, int tensor, Phase phase, double seconds) {
  Samples& samples = samples_[{kind, tensor, micro_batch}];
  (phase == Phase::forward    ? samples.forward
   : phase == Phase::backward ? samples.backward
                              : samples.update)
      .push_back(seconds);
}

std::vector<ProfileRow> LayerSamples::rows(const std::string& file) const {
  std::vector<bool> is_there(kinds_.kinds.size());
  std::vector<ProfileRow> rows;
  for (const auto& [key, samples] : samples_) {
    const auto [kind, tensor, micro_batch] = key;
    const std::string& name = kinds_.kinds[at(kind)].name;
    for (const auto& [phase, times] :
         {std::pair{"forward", &samples.forward}, {"backward", &samples.backward}})
      if (times->empty()) throw Error(file, fmt::format("no {} of layer {}", phase, in_quotes(name)));
    is_there[at(kind)] = true;
    rows.push_back({name,
                    micro_batch,
                    tensor,
                    timing_of(samples.forward),
                    timing_of(samples.backward),
                    samples.update.empty() ? std::nullopt : std::optional(timing_of(samples.update)),
                    {},
                    {}});
  }
  for (std::size_t kind = 0; kind < is_there.size(); ++kind)
    if (!is_there[kind])
      throw Error(file, fmt::format("no times of layer {}", in_quotes(kinds_.kinds[kind].name)));
  return rows;
}

std::vector<int> listed_kinds(const LayerKinds& kinds) {
  std::vector<int> listed;
  for (const std::vector<int>& layer : kinds.of_layer)
    listed.insert(listed.end(), layer.begin(), layer.end());
  return listed;
}

LayerProfile empty_import(std::span<const ImportFile> files, const ImportSettings& settings,
                          std::string_view format, const std::string& how) {
  const std::string first = in_quotes(std::filesystem::path(files.front().name).filename().string());
  LayerProfile profile;
  profile.gpu = settings.gpu;
  profile.source = LayerProfile::Source::imported;
  profile.derivation =
      fmt::format("{} format, {}{}; precision and model as the one who imported it said; {}", format, first,
                  files.size() > 1 ? fmt::format(" and {} more files", files.size() - 1) : "", how);
  profile.precision = settings.job.training.precision;
  profile.model = settings.job.name;
  if (const auto* shape = std::get_if<Transformer>(&settings.job.model)) {
    profile.shape = *shape;
    profile.shape->layers = 0;  // as it is read
  }
  return profile;
}

}  // namespace dtfm::io
