#include "core/io/importers/import_profile.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/text_file.hpp"

namespace dtfm::io {
namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;

constexpr ImportFormat formats[] = {
    {"sailor", "one profile.json", 1, 16 * mebibyte, false, import_sailor},
    {"metis", "one or several DeviceType.GPU_tpT_bsB.json", 256, 16 * mebibyte, false, import_metis},
    {"kineto", "one Chrome trace of PyTorch's profiler", 1, 512 * mebibyte, true, import_kineto}};

ImportFile read_import_file(const std::filesystem::path& path, std::size_t max_bytes) {
  const std::string name = validate_text(path.string(), "the name of a file");
  std::string text = read_file(path, max_bytes);
  if (text.starts_with("\x1f\x8b")) throw Error(name, "is compressed: unpack it first (gunzip)");
  return {name, validate_text(std::move(text), name)};
}

void check_sizes(const ImportFormat& format, const ImportSettings& settings) {
  if (format.needs_sizes && (!settings.micro_batch || !settings.tensor))
    throw Error(settings.micro_batch ? "--tensor" : "--micro-batch",
                fmt::format("is required, because {} files do not contain it", format.name));
  if (!format.needs_sizes && (settings.micro_batch || settings.tensor))
    throw Error(settings.micro_batch ? "--micro-batch" : "--tensor",
                fmt::format("cannot be set, because {} files contain it", format.name));
}

}  // namespace

std::span<const ImportFormat> import_formats() {
  return formats;
}

LayerProfile import_profile(const ImportFormat& format, std::span<const std::filesystem::path> paths,
                            const ImportSettings& settings) {
  if (paths.empty() || paths.size() > format.max_files)
    throw Error("--import",
                fmt::format("{} reads {}; found {} files", format.name, format.files, paths.size()));
  check_sizes(format, settings);
  std::vector<ImportFile> files;
  for (const auto& path : paths) files.push_back(read_import_file(path, format.max_bytes));
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
  std::vector<bool> has_samples(kinds_.kinds.size());
  std::vector<ProfileRow> rows;
  for (const auto& [key, samples] : samples_) {
    const auto [kind, tensor, micro_batch] = key;
    const std::string& name = kinds_.kinds[at(kind)].name;
    for (const auto& [phase, times] :
         {std::pair{"forward", &samples.forward}, {"backward", &samples.backward}})
      if (times->empty()) throw Error(file, fmt::format("no {} times of layer {}", phase, quote(name)));
    has_samples[at(kind)] = true;
    rows.push_back({name,
                    micro_batch,
                    tensor,
                    timing_of(samples.forward),
                    timing_of(samples.backward),
                    samples.update.empty() ? std::nullopt : std::optional(timing_of(samples.update)),
                    {},
                    {}});
  }
  for (std::size_t kind = 0; kind < has_samples.size(); ++kind)
    if (!has_samples[kind])
      throw Error(file, fmt::format("no times of layer {}", quote(kinds_.kinds[kind].name)));
  return rows;
}

std::vector<int> kinds_in_profiler_order(const LayerKinds& kinds) {
  std::vector<int> listed;
  for (const std::vector<int>& layer : kinds.kinds_of_layer)
    listed.insert(listed.end(), layer.begin(), layer.end());
  return listed;
}

bool has_tensor_parallelism(const LayerProfile& profile) {
  return std::any_of(profile.rows.begin(), profile.rows.end(),
                     [](const ProfileRow& row) { return row.tensor > 1; });
}

LayerProfile make_imported_profile(std::span<const ImportFile> files, const ImportSettings& settings,
                                   std::string_view format, const std::string& method) {
  const std::string first = quote(std::filesystem::path(files.front().name).filename().string());
  LayerProfile profile;
  profile.gpu = settings.gpu;
  profile.source = LayerProfile::Source::imported;
  profile.derivation =
      fmt::format("{} format, {}{}; precision and model as specified by the user; {}", format, first,
                  files.size() > 1 ? fmt::format(" and {} more files", files.size() - 1) : "", method);
  profile.precision = settings.job.training.precision;
  profile.model = settings.job.name;
  if (const auto* shape = std::get_if<Transformer>(&settings.job.model)) {
    profile.shape = *shape;
    profile.shape->layers = 0;  // as read_shape leaves it
  }
  return profile;
}

}  // namespace dtfm::io
