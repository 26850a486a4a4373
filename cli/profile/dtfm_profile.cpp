#include <CLI/CLI.hpp>

#include "cli/common/command_line.hpp"
#include "cli/common/main_guard.hpp"
#include "cli/profile/profile_app.hpp"

int main(int argc, char** argv) {
  return dtfm::cli::run_guarded("dtfm-profile", [&] {
    CLI::App app;
    dtfm::cli::ProfileOptions options;
    dtfm::cli::add_profile_options(app, options);
    if (const auto code = dtfm::cli::parse_command_line(app, argc, argv)) return *code;
    dtfm::cli::check_profile_options(app, options);
    return dtfm::cli::run_profile_command(options, dtfm::cli::measure_layers);
  });
}
