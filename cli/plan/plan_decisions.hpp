// The decisions of a plan as a list.
#pragma once

#include <string>
#include <vector>

#include "planner/api/io/plan_document.hpp"
#include "planner/search/iteration_time/plan_candidate.hpp"

namespace dtfm::cli {

/// Returns micro_batch, recompute, schedule, chunks (0: none), flush (0: once per iteration), gradient_sync,
/// tensor, activations and gradients, always in this order.
std::vector<io::PlanRecord::Decision> plan_decisions(const search::PlanCandidate& candidate);

/// Removes the decisions that are the same in all lists.
void keep_only_differences(std::vector<std::vector<io::PlanRecord::Decision>>& lists);

/// "micro-batch 2, recompute none, 1f1b, ring"
std::string format_decisions(const std::vector<io::PlanRecord::Decision>& decisions);

}  // namespace dtfm::cli
