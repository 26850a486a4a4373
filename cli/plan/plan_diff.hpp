// dtfm-plan --diff: compares two plans.
#pragma once

#include "cli/plan/plan_options.hpp"

namespace dtfm::cli {

/// Prints how the plans of `options.diff` differ, and the state migration from the first to the second; with
/// a topology, also its sources and duration. Returns exit code 0 whether or not they differ. Throws Error
/// for bad input.
int run_plan_diff(const PlanOptions& options);

}  // namespace dtfm::cli
