#include <CLI/CLI.hpp>

#include "cli/common/command_line.hpp"
#include "cli/compare/compare_app.hpp"
#include "cli/ranks/run_on_ranks.hpp"

int main(int argc, char** argv) {
  return dtfm::cli::run_on_ranks("dtfm-compare", [&](dtfm::Ranks* ranks) {
    CLI::App app;
    dtfm::cli::CompareOptions options;
    dtfm::cli::add_compare_options(app, options);
    if (const auto code = dtfm::cli::parse_command_line(app, argc, argv)) return *code;
    dtfm::cli::check_compare_options(app, options);
    options.processes = ranks;
    options.common = dtfm::cli::common_options(app);
    return dtfm::cli::run_compare_command(options);
  });
}
