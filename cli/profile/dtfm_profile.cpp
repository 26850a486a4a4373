#include "cli/common/main_guard.hpp"
#include "cli/profile/profile_app.hpp"

int main(int argc, char** argv) {
  return dtfm::cli::run_guarded("dtfm-profile", [&] {
    const auto options = dtfm::cli::parse_profile_options(argc, argv);
    if (!options) return 0;  // after --help or --version
    return dtfm::cli::run_profile_command(*options, dtfm::cli::measure_layers);
  });
}
