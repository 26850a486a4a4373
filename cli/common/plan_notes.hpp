// Notes on the inputs of a result.
#pragma once

#include <string>
#include <vector>

#include "planner/core/job.hpp"
#include "planner/core/plan.hpp"

namespace dtfm::cli {

/// Notes if the micro-batches of a plan are not those of the job, or are not split evenly.
std::vector<std::string> batch_notes(const Plan& plan, const Job& job);

/// Notes which choices are used for settings that are `auto` in the job but that nothing decides, except the
/// tensor degree, which the plan gives.
std::vector<std::string> undecided_notes(const Job& job);

}  // namespace dtfm::cli
