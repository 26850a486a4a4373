// Explains which resources determine the iteration time of a plan.
#pragma once

#include <optional>
#include <string>

#include "planner/io/plan_document.hpp"
#include "core/base/work.hpp"
#include "planner/search/iteration_time/plan_candidate.hpp"

namespace dtfm::cli {

/// Returns the explanation of api::explain_plan with its sentences. Empty if the work was stopped.
std::optional<io::PlanRecord::Explanation> make_explanation(const search::PlanCandidate& candidate,
                                                            const Work& work);

/// The blocks "Bottleneck", "What if" and "When compute is the bottleneck". `input` is what the model counts.
std::string format_explanation(const io::PlanRecord::Explanation& explanation, ModelInput input);

}  // namespace dtfm::cli
