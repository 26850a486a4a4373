#include <CLI/CLI.hpp>

#include "cli/common/command_line.hpp"
#include "cli/common/main_guard.hpp"
#include "cli/topology/topology_app.hpp"
#include "cli/topology/topology_command.hpp"

int main(int argc, char** argv) {
  return dtfm::cli::run_guarded("dtfm-topology", [&] {
    CLI::App app;
    dtfm::cli::TopologyOptions options;
    dtfm::cli::add_topology_options(app, options);
    if (const auto code = dtfm::cli::parse_command_line(app, argc, argv)) return *code;
    dtfm::cli::check_topology_options(options);
    return dtfm::cli::run_topology_command(options);
  });
}
