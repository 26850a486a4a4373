// The command line of dtfm-topology.
#pragma once

#include "cli/topology/topology_options.hpp"

namespace CLI {
class App;
}

namespace dtfm::cli {

/// Sets up `app` for dtfm-topology: description, examples, subcommands and options. Parsing stores values in
/// `options`, which must outlive `app`.
void add_topology_options(CLI::App& app, TopologyOptions& options);

/// Throws Error if a subcommand, option or argument is missing.
void check_topology_options(const TopologyOptions& options);

}  // namespace dtfm::cli
