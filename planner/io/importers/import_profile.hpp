// Times that other profilers have measured, as a LayerProfile. An importer is one file, one line in the table
// of import_profile.cpp and one test.
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

#include "planner/core/job.hpp"
#include "planner/core/layer_profile.hpp"

namespace dtfm::io {

/// What the files do not say.
struct ImportSettings {
  std::string gpu;
  Job job;  // whose model was measured, in its training precision
  std::optional<int> micro_batch, tensor;
};

struct ImportFile {
  std::string name, text;  // UTF-8
};

struct ImportFormat {
  std::string_view name, files;        // "sailor", what it reads
  std::size_t max_files, max_bytes;  // of a file
  bool needs_sizes;                 // micro-batch and tensor degree are not in the files
  LayerProfile (*import)(std::span<const ImportFile> files, const ImportSettings& settings);
};

std::span<const ImportFormat> import_formats();

/// Reads and imports. Throws Error, with file and place, for what is not of the format or not of the job's
/// model.
LayerProfile import_profile(const ImportFormat& format, std::span<const std::filesystem::path> files,
                            const ImportSettings& settings);

/// The formats.
LayerProfile import_sailor(std::span<const ImportFile> files, const ImportSettings& settings);
LayerProfile import_metis(std::span<const ImportFile> files, const ImportSettings& settings);
LayerProfile import_kineto(std::span<const ImportFile> files, const ImportSettings& settings);

/// Samples of layers, to be summed up by kind.
class LayerSamples {
 public:
  enum class Phase { forward, backward, update };

  explicit LayerSamples(const LayerKinds& kinds) : kinds_(kinds) {}

  void add(int kind, int micro_batch, int tensor, Phase phase, double seconds);
  /// By kind, tensor degree and micro-batch. No update: 0. Throws Error at `file` where a kind has no forward
  /// or backward.
  std::vector<ProfileRow> rows(const std::string& file) const;

 private:
  struct Samples {
    std::vector<double> forward, backward, update;
  };
  const LayerKinds& kinds_;
  std::map<std::tuple<int, int, int>, Samples> samples_;  // kind, tensor, micro-batch
};

/// The job's kinds in the order in which profilers list layers: embedding, blocks, head; or the layers of a
/// chain.
std::vector<int> kinds_in_profiler_order(const LayerKinds& kinds);

/// A profile of the job's model without rows.
LayerProfile make_imported_profile(std::span<const ImportFile> files, const ImportSettings& settings,
                          std::string_view format, const std::string& method);

inline constexpr double max_imported_seconds = 1e6;

}  // namespace dtfm::io
