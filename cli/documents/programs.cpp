#include "cli/documents/programs.hpp"

#include <CLI/CLI.hpp>

#include "cli/calibrate/calibrate_app.hpp"
#include "cli/compare/compare_app.hpp"
#include "cli/export/export_app.hpp"
#include "cli/plan/plan_app.hpp"
#include "cli/profile/profile_app.hpp"
#include "cli/simulate/sim_app.hpp"
#include "cli/topology/topology_app.hpp"

namespace dtfm::cli {
namespace {

/// Of the program whose table of options `add` makes.
template <class Options>
CommandWords of(void (*add)(CLI::App&, Options&)) {
  CLI::App app;
  Options options;
  add(app, options);
  return words_of(app);
}

}  // namespace

std::vector<CommandWords> programs() {
  return {
      of(add_plan_options),
      of(add_sim_options),
      of(add_compare_options),
      of(add_profile_options),
      of(add_calibrate_options),
      of(add_export_options),
      of(add_topology_options),
  };
}

}  // namespace dtfm::cli
