// Objective comm-cost: the communication cost of Yuan et al. (NeurIPS 2022, arXiv 2206.01288), section 3, for
// links that may differ by direction.
#pragma once

#include <functional>
#include <span>

#include <Eigen/Core>

#include "planner/core/job.hpp"
#include "planner/core/plan.hpp"
#include "planner/core/topology.hpp"

namespace dtfm::cost {

class BottleneckMatcher;

/// All that the cost depends on: two symmetric n × n matrices in seconds, n = stages · replicas. A message
/// costs its own direction's link, and both directions of a pair are added up; where the paper counts one
/// direction twice, as on a symmetric network, this is the same.
struct CommCostModel {
  int stages = 0, replicas = 0;
  Eigen::MatrixXd
      sync;  // two members of one group exchange a gradient shard: α + c_dp / (replicas · β), both ways
  Eigen::MatrixXd hop;  // activations forward, their gradients backward: α + c_pp / β, both ways

  int devices() const { return stages * replicas; }
};

/// Throws Error when stages · replicas is not the number of devices.
CommCostModel comm_cost_model(const Topology& topology, const CommVolumes& volumes, int stages, int replicas);

/// Seconds. The total is what is minimised.
struct CommCost {
  double data_parallel = 0;      // DATAP: the slowest group's exchange
  double pipeline_parallel = 0;  // PIPELINEP: the hops between consecutive stages, forward and backward
  double total() const { return data_parallel + pipeline_parallel; }
};

/// The exchange of one group: max over members of the sum over the other members.
double sync_cost(const CommCostModel& model, std::span<const int> group);

/// w(C, C'): the bottleneck perfect matching between two groups, forward and backward.
double matching_cost(const CommCostModel& model, std::span<const int> group, std::span<const int> next,
                     BottleneckMatcher& matcher);

/// The cost of a placement exactly as it is deployed: stages in its order, pipelines as its replicas say.
CommCost comm_cost(const CommCostModel& model, const Placement& placement);

/// The cheapest deployment of the groups (rows) of `placement`: the order of the stages is the shortest open
/// path (exact up to `max_exact_path_nodes` groups) and consecutive stages are joined by bottleneck perfect
/// matchings. Its comm_cost is the COMM-COST of the partition. When `stop` says so, the order stays as it is
/// by then, and only the matchings are made.
Placement best_deployment(const CommCostModel& model, const Placement& placement,
                          const std::function<bool()>& stop = {});

/// The same with an order that is only a local optimum, from the one given: much cheaper from 14 groups on.
Placement improve_deployment(const CommCostModel& model, const Placement& placement,
                              const std::function<bool()>& stop = {});

/// groups × groups, symmetric: w(C, C'), the bottleneck perfect matching between the groups of `placement`.
/// When `stop` says so, the rows not reached are zero.
Eigen::MatrixXd coarsened_graph(const CommCostModel& model, const Placement& placement,
                                const std::function<bool()>& stop = {});

}  // namespace dtfm::cost
