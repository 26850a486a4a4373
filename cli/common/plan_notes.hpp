// What a reader of a result should know of its inputs.
#pragma once

#include <string>
#include <vector>

#include "planner/core/job.hpp"
#include "planner/core/plan.hpp"

namespace dtfm::cli {

/// Where the micro-batches of a plan are not those of the job, dealt evenly.
std::vector<std::string> batch_notes(const Plan& plan, const Job& job);

/// Where nothing decides what the job calls `auto`: which choices hold. Not of tensor, which a plan says.
std::vector<std::string> undecided_notes(const Job& job);

}  // namespace dtfm::cli
