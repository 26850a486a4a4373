// The command line of dtfm-calibrate.
#pragma once

#include "cli/calibrate/calibrate_options.hpp"

namespace CLI {
class App;
}

namespace dtfm::cli {

/// Sets up `app` for dtfm-calibrate: name, help texts and options. Parsing stores values in `options`, which
/// must outlive `app`.
void add_calibrate_options(CLI::App& app, CalibrateOptions& options);

/// Throws Error if a required argument is missing.
void check_calibrate_options(const CalibrateOptions& options);

}  // namespace dtfm::cli
