#include <CLI/CLI.hpp>

#include "cli/common/command_line.hpp"
#include "cli/common/main_guard.hpp"
#include "cli/plan/plan_app.hpp"
#include "cli/plan/plan_diff.hpp"

int main(int argc, char** argv) {
  return dtfm::cli::run_guarded("dtfm-plan", [&] {
    CLI::App app;
    dtfm::cli::PlanOptions options;
    dtfm::cli::add_plan_options(app, options);
    if (const auto code = dtfm::cli::parse_command_line(app, argc, argv)) return *code;
    dtfm::cli::check_plan_options(app, options);
    return options.diff ? dtfm::cli::run_plan_diff(options) : dtfm::cli::run_plan_command(options);
  });
}
