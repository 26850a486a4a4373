#include <CLI/CLI.hpp>

#include "cli/common/command_line.hpp"
#include "cli/common/main_guard.hpp"
#include "cli/compare/compare_app.hpp"

int main(int argc, char** argv) {
  return dtfm::cli::run_guarded("dtfm-compare", [&] {
    CLI::App app;
    dtfm::cli::CompareOptions options;
    dtfm::cli::add_compare_options(app, options);
    if (const auto code = dtfm::cli::parse_command_line(app, argc, argv)) return *code;
    dtfm::cli::check_compare_options(app, options);
    return dtfm::cli::run_compare_command(options);
  });
}
