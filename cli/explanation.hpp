// Why a plan takes as long as it does, in words.
#pragma once

#include <string>

#include "planner/io/plan_json.hpp"
#include "planner/search/plan_candidate.hpp"

namespace dtfm {

/// Numbers and sentences about a plan by iteration time.
PlanRecord::Explanation explanation_of(const PlanCandidate& candidate, int threads);

/// The blocks "What binds", "What would help" and "Compute-bound".
std::string explanation_text(const PlanRecord::Explanation& explanation);

}  // namespace dtfm
