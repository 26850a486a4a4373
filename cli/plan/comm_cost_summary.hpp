// Formats the summary of a plan made by comm-cost.
#pragma once

#include <optional>
#include <string>

#include "planner/core/job.hpp"
#include "planner/core/topology.hpp"
#include "planner/cost/comm_cost/comm_cost.hpp"
#include "planner/io/writers/plan_json.hpp"

namespace dtfm::cli {

struct CommCostSummary {
  const Topology& topology;
  const Job& job;
  const CommVolumes& volumes;
  const cost::CommCostModel& model;
  const Placement& placement;
  const Plan& plan;
  const io::PlanRecord& record;
  std::optional<cost::CommCost> best_deployment;  // of the same groups, for a plan that was scored
};

/// Some 40 to 60 lines, however many devices there are.
std::string format_summary(const CommCostSummary& summary);

}  // namespace dtfm::cli
