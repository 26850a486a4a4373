// The command line of dtfm-plan.
#pragma once

#include <optional>

#include "cli/plan/plan_options.hpp"

namespace CLI {
class App;
}

namespace dtfm::cli {

/// Sets up `app` for dtfm-plan: name, help texts and options. Parsing stores values in `options`, which must
/// outlive `app`.
void add_plan_options(CLI::App& app, PlanOptions& options);

/// Returns the options in the arguments of dtfm-plan, or nothing after --help or --version. Throws Error for
/// options that are invalid, missing or conflicting.
std::optional<PlanOptions> parse_plan_options(int argc, char** argv);

}  // namespace dtfm::cli
