#include "cli/common/main_guard.hpp"
#include "cli/topology/topology_app.hpp"
#include "cli/topology/topology_command.hpp"

int main(int argc, char** argv) {
  return dtfm::cli::run_guarded("dtfm-topology", [&] {
    const auto options = dtfm::cli::parse_topology_options(argc, argv);
    if (!options) return 0;  // after --help or --version
    return dtfm::cli::run_topology_command(*options);
  });
}
