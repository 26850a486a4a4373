// Writes how two plans differ as JSON, by the schema dtfm-plan-diff/1.
#pragma once

#include <string>
#include <vector>

#include "planner/api/plan_diff.hpp"

namespace dtfm::io {

/// A decision, as text, of two plans.
struct DecisionDiff {
  std::string name, first, second;
};
/// Only decisions that differ.
std::vector<DecisionDiff> decision_diffs(const api::PlanDiffRequest& plans);

/// Why there is no state migration; empty if there is one.
std::string no_migration_reason(const api::PlanDiff& diff);

std::string plan_diff_json(const api::PlanDiffRequest& plans, const api::PlanDiff& diff);
bool is_plan_diff_prefix(const std::string& text);

}  // namespace dtfm::io
