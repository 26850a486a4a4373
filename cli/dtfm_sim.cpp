#include <CLI/CLI.hpp>

#include "cli/command_line.hpp"
#include "cli/graph_command.hpp"
#include "cli/main_guard.hpp"
#include "cli/sim_app.hpp"

int main(int argc, char** argv) {
  return dtfm::guarded("dtfm-sim", [&] {
    CLI::App app;
    dtfm::SimulateOptions options;
    dtfm::add_sim_options(app, options);
    if (const auto code = dtfm::parse_command_line(app, argc, argv)) return *code;
    dtfm::check_sim_options(app, options);
    if (!options.graph) return dtfm::run_simulate_command(options);
    return dtfm::run_graph_command({*options.graph, options.tasks.value_or(""), options.output.value_or(""),
                                    options.stats, options.quiet});
  });
}
