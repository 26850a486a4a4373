// Converts the results of other profilers to a LayerProfile. A new importer is one file, one row in the table
// in import_profile.cpp and one test.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/plan/job.hpp"
#include "core/model/layer_profile.hpp"

namespace dtfm::io {

/// Facts that the files do not contain.
struct ImportSettings {
  std::string gpu;
  Job job;                                 // its model was measured, in its training precision
  std::optional<int> micro_batch, tensor;  // only for formats with `needs_sizes`
};

struct ImportFile {
  std::string name, text;  // UTF-8
};

struct ImportFormat {
  std::string_view name, files;      // such as "sailor"; description of the files it reads
  std::size_t max_files, max_bytes;  // max_bytes: per file
  bool needs_sizes;                  // whether micro-batch and tensor degree must be given by the user
  LayerProfile (*import)(std::span<const ImportFile> files, const ImportSettings& settings);
};

std::span<const ImportFormat> import_formats();

/// Reads and imports `files`. Throws Error, with file and position, for content that does not match the
/// format or the job's model.
LayerProfile import_profile(const ImportFormat& format, std::span<const std::filesystem::path> files,
                            const ImportSettings& settings);

// The importers of import_formats().
LayerProfile import_sailor(std::span<const ImportFile> files, const ImportSettings& settings);
LayerProfile import_metis(std::span<const ImportFile> files, const ImportSettings& settings);
LayerProfile import_kineto(std::span<const ImportFile> files, const ImportSettings& settings);

/// Collects timing samples of layers and summarizes them per kind.
class LayerSamples {
 public:
  enum class Phase { forward, backward, update };

  explicit LayerSamples(const LayerKinds& kinds) : kinds_(kinds) {}

  void add(int kind, int micro_batch, int tensor, Phase phase, double seconds);
  /// One row per kind, tensor degree and micro-batch, in this order. Throws Error at `file` if a kind has no
  /// forward or no backward samples.
  std::vector<ProfileRow> rows(const std::string& file) const;

 private:
  struct Samples {
    std::vector<double> forward, backward, update;
  };
  const LayerKinds& kinds_;
  std::map<std::tuple<int, int, int>, Samples> samples_;  // kind, tensor, micro-batch
};

/// The kind of each layer in the order in which profilers list layers: embedding, blocks, head; or the layers
/// of a chain.
std::vector<int> kinds_in_profiler_order(const LayerKinds& kinds);

/// A profile of the job's model without rows. Its derivation names `format`, the files and `method`.
LayerProfile make_imported_profile(std::span<const ImportFile> files, const ImportSettings& settings,
                                   std::string_view format, const std::string& method);

/// Whether a row has several devices. Profilers of whole trainers time their all-reduces, too.
bool has_tensor_parallelism(const LayerProfile& profile);

inline constexpr double max_imported_seconds = 1e6;

}  // namespace dtfm::io
