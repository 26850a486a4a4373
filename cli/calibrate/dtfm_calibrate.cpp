#include "cli/calibrate/calibrate_app.hpp"
#include "cli/common/main_guard.hpp"

int main(int argc, char** argv) {
  return dtfm::cli::run_guarded("dtfm-calibrate", [&] {
    const auto options = dtfm::cli::parse_calibrate_options(argc, argv);
    if (!options) return 0;  // after --help or --version
    return dtfm::cli::run_calibrate_command(*options);
  });
}
