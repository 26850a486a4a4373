// The dtfm-topology command.
#pragma once

#include "cli/topology/topology_options.hpp"

namespace dtfm::cli {

/// Runs the command and returns the exit code. Throws Error for bad input.
int run_topology_command(const TopologyOptions& options);

}  // namespace dtfm::cli
