// The command line of dtfm-topology.
#pragma once

#include "cli/topology/topology_options.hpp"

namespace CLI {
class App;
}

namespace dtfm::cli {

/// Description, examples, subcommands and options. What is parsed goes into `options`, which must outlive
/// `app`.
void add_topology_options(CLI::App& app, TopologyOptions& options);

/// Throws Error where options that need each other are not all there.
void check_topology_options(const TopologyOptions& options);

}  // namespace dtfm::cli
