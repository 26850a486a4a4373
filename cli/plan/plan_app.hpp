// The command line of dtfm-plan.
#pragma once

#include <optional>

#include "cli/plan/plan_options.hpp"

namespace dtfm::cli {

/// Sets up `list` for dtfm-plan: name, help texts and options. Parsing stores values in `options`, which must
/// outlive `list`.
void add_plan_options(request::OptionList& list, PlanOptions& options);

/// Returns the options in the arguments of dtfm-plan, or nothing after --help or --version. Throws Error for
/// options that are invalid, missing or conflicting.
std::optional<PlanOptions> parse_plan_options(int argc, char** argv);

}  // namespace dtfm::cli
