// The command line of dtfm-sim.
#pragma once

#include <optional>

#include "cli/simulate/simulate_options.hpp"

namespace dtfm::cli {

/// Sets up `list` for dtfm-sim: name, help texts and options. Parsing stores values in `options`, which must
/// outlive `list`.
void add_sim_options(request::OptionList& list, SimulateOptions& options);

/// Returns the options in the arguments of dtfm-sim, or nothing after --help or --version. Throws Error for
/// options that are invalid, missing or conflicting.
std::optional<SimulateOptions> parse_sim_options(int argc, char** argv);

}  // namespace dtfm::cli
