// The command line of dtfm-topology.
#pragma once

#include <optional>

#include "cli/topology/topology_options.hpp"
#include "planner/request/option_list.hpp"

namespace dtfm::cli {

/// Sets up `list` for dtfm-topology: description, examples, subcommands and options. Parsing stores values in
/// `options`, which must outlive `list`.
void add_topology_options(request::OptionList& list, TopologyOptions& options);

/// Returns the options in the arguments of dtfm-topology, or nothing after --help or --version. Throws Error
/// for options that are invalid, missing or conflicting.
std::optional<TopologyOptions> parse_topology_options(int argc, char** argv);

}  // namespace dtfm::cli
