// dtfm-topology: the command line.
#include <CLI/CLI.hpp>

#include "cli/command_line.hpp"
#include "cli/main_guard.hpp"
#include "cli/topology_app.hpp"
#include "cli/topology_command.hpp"

namespace dtfm {
namespace {

int run(int argc, char** argv) {
  TopologyOptions options;
  CLI::App app("", "dtfm-topology");
  add_topology_options(app, options);
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  check_complete(options);
  return run_topology_command(options);
}

}  // namespace
}  // namespace dtfm

int main(int argc, char** argv) {
  return dtfm::guarded("dtfm-topology", [&] { return dtfm::run(argc, argv); });
}
