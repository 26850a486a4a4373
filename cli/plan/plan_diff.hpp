// What two plans differ in.
#pragma once

#include "cli/plan/plan_options.hpp"

namespace dtfm::cli {

/// Prints what the plans of `options.diff` differ in, and what has to move from the first to the second; with
/// a topology, in how long. The exit code: 0, whether they differ or not. Throws Error for bad input.
int run_plan_diff(const PlanOptions& options);

}  // namespace dtfm::cli
