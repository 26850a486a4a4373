#include <CLI/CLI.hpp>

#include "cli/common/command_line.hpp"
#include "cli/common/main_guard.hpp"
#include "cli/export/export_app.hpp"

int main(int argc, char** argv) {
  return dtfm::cli::run_guarded("dtfm-export", [&] {
    CLI::App app;
    dtfm::cli::ExportOptions options;
    dtfm::cli::add_export_options(app, options);
    if (const auto code = dtfm::cli::parse_command_line(app, argc, argv)) return *code;
    dtfm::cli::check_export_options(options);
    return dtfm::cli::run_export_command(options);
  });
}
