#include <CLI/CLI.hpp>

#include "cli/calibrate_app.hpp"
#include "cli/command_line.hpp"
#include "cli/main_guard.hpp"

int main(int argc, char** argv) {
  return dtfm::guarded("dtfm-calibrate", [&] {
    CLI::App app;
    dtfm::CalibrateOptions options;
    dtfm::add_calibrate_options(app, options);
    if (const auto code = dtfm::parse_command_line(app, argc, argv)) return *code;
    dtfm::check_calibrate_options(options);
    return dtfm::run_calibrate_command(options);
  });
}
