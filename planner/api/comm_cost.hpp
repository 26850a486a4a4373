// Plans by communication cost, and scores given plans by it. Nothing is simulated.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "core/plan/job.hpp"
#include "core/plan/plan.hpp"
#include "planner/cost/comm_cost/comm_cost.hpp"

namespace dtfm::api {

/// Throws Error for a job that comm-cost does not describe: with tensor parallelism, or with compression that
/// depends on the bandwidth of a link.
void check_comm_cost(const Job& job);

/// A job of stages × replicas equal parts, and its communication times.
struct CommCostProblem {
  Job job;  // with the numbers of stages and replicas, and nothing left to the planner
  CommVolumes volumes;
  cost::CommCostModel model;
};

/// What determines the two parts of the cost of a placement. Links are (from, to) in the slower
/// direction.
struct CommCostSteps {
  struct Sync {
    double seconds = 0;        // until the last device of the stage has finished
    int device = 0;            // that device
    std::pair<int, int> link;  // its slowest one, for more than one replica
  };
  struct Hop {
    double seconds = 0;
    int pipeline = 0;  // in which the hop is slowest
    std::pair<int, int> link;
  };
  std::vector<Sync> syncs;  // [stage]
  std::vector<Hop> hops;    // [stage]: to the next one
};

/// A plan by communication cost.
struct CommCostAnswer {
  CommCostProblem problem;
  Placement placement;
  cost::CommCost cost;
  CommCostSteps steps = {};
  std::optional<cost::CommCost> best_deployment = {};  // of the same groups, if the plan was given
};

struct GivenPlan;
struct PlanAnswer;
struct PlanRequest;

/// Searches for the placement with the least communication cost. One limit determines the other, because
/// every device is used. Without limits, those of the job apply, or else the number of stages for which it
/// gives communication volumes. Throws search::NoSuchShape if there is no number of stages, or if it does not
/// divide the devices; Error for an unknown strategy and as `check_comm_cost` does.
PlanAnswer plan_by_comm_cost(const PlanRequest& request);
/// Evaluates a plan as it is. Throws Error as `check_comm_cost` and `balanced_placement` do.
PlanAnswer score_by_comm_cost(const PlanRequest& request, const GivenPlan& given);

}  // namespace dtfm::api
