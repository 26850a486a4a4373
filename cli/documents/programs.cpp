#include "cli/documents/programs.hpp"

#include "cli/calibrate/calibrate_app.hpp"
#include "cli/common/command_line.hpp"
#include "cli/compare/compare_app.hpp"
#include "cli/export/export_app.hpp"
#include "cli/plan/plan_app.hpp"
#include "cli/profile/profile_app.hpp"
#include "cli/simulate/sim_app.hpp"
#include "cli/topology/topology_app.hpp"

namespace dtfm::cli {
namespace {

/// Description of the program whose options are defined by `add`.
template <class Options>
CommandDescription describe_program(void (*add)(OptionList&, Options&)) {
  OptionList list;
  Options options;
  add(list, options);
  return describe(list);
}

}  // namespace

std::vector<CommandDescription> programs() {
  return {
      describe_program(add_plan_options),      describe_program(add_sim_options),
      describe_program(add_compare_options),   describe_program(add_profile_options),
      describe_program(add_calibrate_options), describe_program(add_export_options),
      describe_program(add_topology_options),
  };
}

}  // namespace dtfm::cli
