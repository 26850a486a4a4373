#include "cli/compare/compare_app.hpp"
#include "cli/ranks/run_on_ranks.hpp"

int main(int argc, char** argv) {
  return dtfm::cli::run_on_ranks("dtfm-compare", [&](dtfm::Ranks* ranks) {
    auto options = dtfm::cli::parse_compare_options(argc, argv);
    if (!options) return 0;  // after --help or --version
    options->work.ranks = ranks;
    return dtfm::cli::run_compare_command(*options);
  });
}
