#include "cli/common/common_work.hpp"
#include "cli/plan/plan_app.hpp"
#include "cli/ranks/run_on_ranks.hpp"

int main(int argc, char** argv) {
  return dtfm::cli::run_on_ranks("dtfm-plan", [&](dtfm::Ranks* ranks) {
    auto options = dtfm::cli::parse_plan_options(argc, argv);
    if (!options) return 0;  // after --help or --version
    options->work.ranks = ranks;
    if (!options->diff) return dtfm::cli::run_plan_command(*options);
    return dtfm::cli::continues_alone(ranks, true) ? dtfm::cli::run_plan_diff(*options) : 0;
  });
}
