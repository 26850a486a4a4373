// What was decided for a plan, as a list.
#pragma once

#include <string>
#include <vector>

#include "planner/io/plan_json.hpp"
#include "planner/search/plan_candidate.hpp"

namespace dtfm {

/// micro_batch, recompute, schedule, chunks (0: there are none), flush (0: once an iteration), gradient_sync,
/// tensor, activations, gradients: always in this order.
std::vector<PlanRecord::Decision> decisions_of(const PlanCandidate& candidate);

/// Keeps of each list what is not the same in all of them.
void keep_differences(std::vector<std::vector<PlanRecord::Decision>>& lists);

/// "micro-batch 2, recompute none, 1f1b, ring"
std::string decision_words(const std::vector<PlanRecord::Decision>& decisions);

}  // namespace dtfm
