// Options of dtfm-profile.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/common/output_format.hpp"
#include "cli/common/style.hpp"
#include "cli/profile/measure_layers.hpp"

namespace dtfm::cli {

struct ProfileOptions {
  enum class Mode { measure, estimate, import, check, list_gpus };

  Mode mode = Mode::measure;
  std::string import_format;
  std::vector<std::string> files;           // to import or check
  std::optional<std::string> model;         // name of a preset
  std::optional<std::string> job;           // file; without model and job: GPT-3 XL
  std::optional<std::string> gpu;           // name in the catalogue; set in modes estimate and import
  std::optional<Precision> precision;       // if not given: that of the job
  std::vector<int> micro_batches, tensors;  // empty: defaults of the mode
  std::optional<std::string> output;        // file
  OutputFormat format = OutputFormat::text;
  ColorChoice color = ColorChoice::automatic;
  bool quiet = false;
};

/// Runs the command and returns the exit code. `measure` is measure_layers: it comes from outside because
/// only the program itself links the kernels. Throws Error for bad input.
int run_profile_command(const ProfileOptions& options, LayerProfile (*measure)(const MeasureRequest&));

}  // namespace dtfm::cli
