// Formats the summary of a plan made by comm-cost.
#pragma once

#include <optional>
#include <string>

#include "planner/api/comm_cost.hpp"
#include "planner/io/plan_document.hpp"
#include "core/cluster/topology.hpp"

namespace dtfm::cli {

struct CommCostSummary {
  const Topology& topology;
  const api::CommCostProblem& problem;
  const Placement& placement;
  const Plan& plan;
  const io::PlanRecord& record;
  std::optional<cost::CommCost> best_deployment;  // of the same groups, if the plan was scored
};

/// Returns about 40 to 60 lines for any number of devices.
std::string format_summary(const CommCostSummary& summary);

}  // namespace dtfm::cli
