// Sentences about what limits a plan.
#pragma once

#include <string>
#include <vector>

#include "planner/api/plan_answer.hpp"

namespace dtfm::io {

struct ExplanationText {
  std::vector<std::string> summary;   // of the bottleneck
  std::vector<std::string> messages;  // between stages: what limits, hides or exposes them
  std::vector<std::string> devices;   // why they have few layers or none
  std::vector<std::string> changes;   // descriptions of the explanation's `what_ifs`, in their order
  std::vector<std::string> scaling;   // when the plan becomes compute-bound
};

/// The answer must have an explanation.
ExplanationText explanation_text(const api::PlanAnswer& answer);

}  // namespace dtfm::io
