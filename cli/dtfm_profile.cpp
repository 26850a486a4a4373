#include <CLI/CLI.hpp>

#include "cli/command_line.hpp"
#include "cli/main_guard.hpp"
#include "cli/profile_app.hpp"

int main(int argc, char** argv) {
  return dtfm::guarded("dtfm-profile", [&] {
    CLI::App app;
    dtfm::ProfileOptions options;
    dtfm::add_profile_options(app, options);
    if (const auto code = dtfm::parse_command_line(app, argc, argv)) return *code;
    dtfm::check_profile_options(app, options);
    return dtfm::run_profile_command(options);
  });
}
