#include <CLI/CLI.hpp>

#include "cli/command_line.hpp"
#include "cli/main_guard.hpp"
#include "cli/topology_app.hpp"
#include "cli/topology_command.hpp"

int main(int argc, char** argv) {
  return dtfm::guarded("dtfm-topology", [&] {
    CLI::App app;
    dtfm::TopologyOptions options;
    dtfm::add_topology_options(app, options);
    if (const auto code = dtfm::parse_command_line(app, argc, argv)) return *code;
    dtfm::check_complete(options);
    return dtfm::run_topology_command(options);
  });
}
