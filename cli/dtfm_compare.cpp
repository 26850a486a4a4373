#include <CLI/CLI.hpp>

#include "cli/command_line.hpp"
#include "cli/compare_app.hpp"
#include "cli/main_guard.hpp"

int main(int argc, char** argv) {
  return dtfm::guarded("dtfm-compare", [&] {
    CLI::App app;
    dtfm::CompareOptions options;
    dtfm::add_compare_options(app, options);
    if (const auto code = dtfm::parse_command_line(app, argc, argv)) return *code;
    dtfm::check_compare_options(app, options);
    return dtfm::run_compare_command(options);
  });
}
