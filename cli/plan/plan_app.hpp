// The command line of dtfm-plan.
#pragma once

#include "cli/plan/plan_options.hpp"

namespace CLI {
class App;
}

namespace dtfm::cli {

/// Sets up `app` for dtfm-plan: name, help texts and options. Parsing stores values in `options`, which must
/// outlive `app`.
void add_plan_options(CLI::App& app, PlanOptions& options);

/// Throws Error for options that have no effect together with others, or that require others.
void check_plan_options(const CLI::App& app, const PlanOptions& options);

}  // namespace dtfm::cli
