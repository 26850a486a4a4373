// dtfm-topology without its command line.
#pragma once

#include "cli/topology/topology_options.hpp"

namespace dtfm::cli {

/// Does what the options ask for; the exit code. Throws Error for bad input.
int run_topology_command(const TopologyOptions& options);

}  // namespace dtfm::cli
