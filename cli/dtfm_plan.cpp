#include <CLI/CLI.hpp>

#include "cli/command_line.hpp"
#include "cli/main_guard.hpp"
#include "cli/plan_app.hpp"
#include "cli/plan_diff.hpp"

int main(int argc, char** argv) {
  return dtfm::guarded("dtfm-plan", [&] {
    CLI::App app;
    dtfm::PlanOptions options;
    dtfm::add_plan_options(app, options);
    if (const auto code = dtfm::parse_command_line(app, argc, argv)) return *code;
    dtfm::check_plan_options(app, options);
    return options.diff ? dtfm::run_plan_diff(options) : dtfm::run_plan_command(options);
  });
}
