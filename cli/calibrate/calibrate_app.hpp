// The command line of dtfm-calibrate.
#pragma once

#include "cli/calibrate/calibrate_options.hpp"

namespace CLI {
class App;
}

namespace dtfm::cli {

/// Makes `app` that of dtfm-calibrate: its name, what --help says, and all options, which go to `options`.
void add_calibrate_options(CLI::App& app, CalibrateOptions& options);

/// Refuses options that say nothing beside others, or lack others. Throws Error.
void check_calibrate_options(const CalibrateOptions& options);

}  // namespace dtfm::cli
