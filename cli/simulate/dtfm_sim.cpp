#include "cli/common/common_work.hpp"
#include "cli/ranks/run_on_ranks.hpp"
#include "cli/simulate/graph_command.hpp"
#include "cli/simulate/sim_app.hpp"

int main(int argc, char** argv) {
  return dtfm::cli::run_on_ranks("dtfm-sim", [&](dtfm::Ranks* ranks) {
    auto options = dtfm::cli::parse_sim_options(argc, argv);
    if (!options) return 0;  // after --help or --version
    options->work.ranks = ranks;
    if (options->graph && !dtfm::cli::continues_alone(ranks, true)) return 0;
    if (!options->graph) return dtfm::cli::run_simulate_command(*options);
    return dtfm::cli::run_graph_command({*options->graph, options->tasks.value_or(""),
                                         options->output.value_or(""), options->stats, options->quiet});
  });
}
