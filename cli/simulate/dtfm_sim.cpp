#include <CLI/CLI.hpp>

#include "cli/common/command_line.hpp"
#include "cli/common/common_work.hpp"
#include "cli/ranks/run_on_ranks.hpp"
#include "cli/simulate/graph_command.hpp"
#include "cli/simulate/sim_app.hpp"

int main(int argc, char** argv) {
  return dtfm::cli::run_on_ranks("dtfm-sim", [&](dtfm::Ranks* ranks) {
    CLI::App app;
    dtfm::cli::SimulateOptions options;
    dtfm::cli::add_sim_options(app, options);
    if (const auto code = dtfm::cli::parse_command_line(app, argc, argv)) return *code;
    dtfm::cli::check_sim_options(app, options);
    options.processes = ranks;
    options.common = dtfm::cli::common_options(app);
    if (options.graph && !dtfm::cli::continues_alone(ranks, true)) return 0;
    if (!options.graph) return dtfm::cli::run_simulate_command(options);
    return dtfm::cli::run_graph_command({*options.graph, options.tasks.value_or(""),
                                         options.output.value_or(""), options.stats, options.quiet});
  });
}
