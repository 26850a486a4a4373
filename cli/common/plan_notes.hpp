// Notes on the inputs of a result.
#pragma once

#include <string>
#include <vector>

#include "planner/core/job.hpp"
#include "planner/core/plan.hpp"

namespace dtfm::cli {

/// Notes if the plan's micro-batches are not those of the job, or not distributed evenly.
std::vector<std::string> batch_notes(const Plan& plan, const Job& job);

/// Notes which values are used for keys that the job leaves `auto`, where nothing decides them. `tensor` is
/// not among them, because a plan gives it.
std::vector<std::string> undecided_notes(const Job& job);

}  // namespace dtfm::cli
