#include <CLI/CLI.hpp>

#include "cli/command_line.hpp"
#include "cli/export_app.hpp"
#include "cli/main_guard.hpp"

int main(int argc, char** argv) {
  return dtfm::guarded("dtfm-export", [&] {
    CLI::App app;
    dtfm::ExportOptions options;
    dtfm::add_export_options(app, options);
    if (const auto code = dtfm::parse_command_line(app, argc, argv)) return *code;
    dtfm::check_export_options(options);
    return dtfm::run_export_command(options);
  });
}
