// The command line of dtfm-calibrate.
#pragma once

#include <optional>

#include "cli/calibrate/calibrate_options.hpp"

namespace CLI {
class App;
}

namespace dtfm::cli {

/// Sets up `app` for dtfm-calibrate: name, help texts and options. Parsing stores values in `options`, which
/// must outlive `app`.
void add_calibrate_options(CLI::App& app, CalibrateOptions& options);

/// Returns the options in the arguments of dtfm-calibrate, or nothing after --help or --version. Throws Error
/// for options that are invalid, missing or conflicting.
std::optional<CalibrateOptions> parse_calibrate_options(int argc, char** argv);

}  // namespace dtfm::cli
