#include "cli/common/main_guard.hpp"
#include "cli/export/export_app.hpp"

int main(int argc, char** argv) {
  return dtfm::cli::run_guarded("dtfm-export", [&] {
    const auto options = dtfm::cli::parse_export_options(argc, argv);
    if (!options) return 0;  // after --help or --version
    return dtfm::cli::run_export_command(*options);
  });
}
