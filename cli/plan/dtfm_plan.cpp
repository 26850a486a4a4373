#include <CLI/CLI.hpp>

#include "cli/common/command_line.hpp"
#include "cli/common/common_work.hpp"
#include "cli/plan/plan_app.hpp"
#include "cli/plan/plan_diff.hpp"
#include "cli/ranks/run_on_ranks.hpp"

int main(int argc, char** argv) {
  return dtfm::cli::run_on_ranks("dtfm-plan", [&](dtfm::Ranks* ranks) {
    CLI::App app;
    dtfm::cli::PlanOptions options;
    dtfm::cli::add_plan_options(app, options);
    if (const auto code = dtfm::cli::parse_command_line(app, argc, argv)) return *code;
    dtfm::cli::check_plan_options(app, options);
    options.processes = ranks;
    options.common = dtfm::cli::common_options(app);
    if (!options.diff) return dtfm::cli::run_plan_command(options);
    return dtfm::cli::continues_alone(ranks, true) ? dtfm::cli::run_plan_diff(options) : 0;
  });
}
