// Tables of the trainers for which plans are made.
#pragma once

#include <string>
#include <vector>

#include "planner/api/target_times.hpp"

namespace dtfm::cli {

/// What every target runs: --list-targets of dtfm-plan.
std::string format_target_table();

/// A row for each target: its time for a plan that takes `planned_s`, and what it changes, or why it cannot
/// run the plan.
std::string format_target_times(const std::vector<api::TargetTime>& times, double planned_s);

}  // namespace dtfm::cli
