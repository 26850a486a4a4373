// The option --calibration, which several programs have.
#pragma once

#include <optional>
#include <string>

#include "cli/common/command_line.hpp"

namespace dtfm::cli {

inline void add_calibration_option(CLI::App& app, std::optional<std::string>& calibration) {
  add_option(app, "--calibration", "NAME|FILE",
             "constants: neutral, v100, or from dtfm-calibrate [of the job or topology, or neutral]",
             [&calibration](const std::string& text) { calibration = text; });
}

}  // namespace dtfm::cli
