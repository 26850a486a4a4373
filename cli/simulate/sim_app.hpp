// The command line of dtfm-sim.
#pragma once

#include "cli/simulate/simulate_options.hpp"

namespace CLI {
class App;
}

namespace dtfm::cli {

/// Sets up `app` for dtfm-sim: name, help texts and options. Parsing stores values in `options`, which must
/// outlive `app`.
void add_sim_options(CLI::App& app, SimulateOptions& options);

/// Throws Error for options that have no effect together with others, or that require others.
void check_sim_options(const CLI::App& app, const SimulateOptions& options);

}  // namespace dtfm::cli
