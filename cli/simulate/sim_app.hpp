// The command line of dtfm-sim.
#pragma once

#include "cli/simulate/simulate_options.hpp"

namespace CLI {
class App;
}

namespace dtfm::cli {

/// Makes `app` that of dtfm-sim: its name, what --help says, and all options, which go to `options`.
void add_sim_options(CLI::App& app, SimulateOptions& options);

/// Throws Error for options that have no effect together with others, or that require others.
void check_sim_options(const CLI::App& app, const SimulateOptions& options);

}  // namespace dtfm::cli
