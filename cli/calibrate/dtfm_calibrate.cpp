#include <CLI/CLI.hpp>

#include "cli/calibrate/calibrate_app.hpp"
#include "cli/common/command_line.hpp"
#include "cli/common/main_guard.hpp"

int main(int argc, char** argv) {
  return dtfm::cli::run_guarded("dtfm-calibrate", [&] {
    CLI::App app;
    dtfm::cli::CalibrateOptions options;
    dtfm::cli::add_calibrate_options(app, options);
    if (const auto code = dtfm::cli::parse_command_line(app, argc, argv)) return *code;
    dtfm::cli::check_calibrate_options(options);
    return dtfm::cli::run_calibrate_command(options);
  });
}
