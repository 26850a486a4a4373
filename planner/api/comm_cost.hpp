// Plans a job by communication cost, and scores a given placement: what dtfm-plan --objective comm-cost does,
// without text. Nothing is simulated.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/plan/job.hpp"
#include "core/plan/plan.hpp"
#include "core/cluster/topology.hpp"
#include "planner/cost/comm_cost/comm_cost.hpp"
#include "planner/search/comm_cost/strategy.hpp"
#include "planner/search/iteration_time/iteration_search.hpp"

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

/// What determines the two parts of the cost of a placement. A link is that of the slower direction.
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
CommCostSteps comm_cost_steps(const Topology& topology, const CommCostProblem& problem,
                              const Placement& placement);

struct CommCostPlanRequest {
  Topology topology;
  Job job;
  /// One number determines the other, because every device is used. If both are empty, those of the job
  /// apply, or else the number of stages for which it gives communication volumes.
  search::ShapeLimits limits = {};
  std::string strategy = std::string(search::default_strategy);
  /// Seed, threads, budget and proof. `on_progress` reports progress, and `stop` cancels the search: the best
  /// placement so far is returned.
  search::SearchOptions options = {};
};

struct CommCostPlanResult {
  CommCostProblem problem;
  search::SearchResult found;  // placement, cost, lower bound, evaluations, convergence
  Plan plan;                   // that deploys the placement
};

/// Searches for the placement with the least communication cost. Throws search::NoSuchShape if there is no
/// number of stages, or if it does not divide the devices; Error for an unknown strategy and as
/// `check_comm_cost` does.
CommCostPlanResult plan_comm_cost(const CommCostPlanRequest& request);

struct CommCostScoreRequest {
  Topology topology;
  Job job;
  Placement placement;  // of all devices; `io::balanced_placement` returns that of a plan
};

struct CommCostScoreResult {
  CommCostProblem problem;
  cost::CommCost cost;             // as the placement is deployed
  cost::CommCost best_deployment;  // of the same groups, with the best stage order and matchings
};

/// Evaluates a placement as it is. Throws Error as `check_comm_cost` does, and if the placement does not have
/// as many devices as the topology.
CommCostScoreResult score_comm_cost(const CommCostScoreRequest& request);

}  // namespace dtfm::api
