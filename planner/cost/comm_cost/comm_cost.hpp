// The objective comm-cost: communication cost as defined by Yuan et al. (NeurIPS 2022, arXiv 2206.01288),
// section 3, extended to links whose two directions differ.
#pragma once

#include <functional>
#include <span>

#include <Eigen/Core>

#include "core/cluster/topology.hpp"
#include "core/plan/job.hpp"
#include "core/plan/plan.hpp"

namespace dtfm::cost {

class BottleneckMatcher;

/// All inputs of the cost: two symmetric n × n matrices in seconds, n = stages · replicas. A message is
/// charged at the link of its own direction, and the two directions of a pair are added. On a symmetric
/// network this equals the paper's formula, which counts one direction twice.
struct CommCostModel {
  int stages = 0, replicas = 0;
  /// Two members of a group send each other one gradient shard: α + c_dp / (replicas · β), both directions.
  Eigen::MatrixXd sync;
  /// Activations forward and their gradients backward: α + c_pp / β, both directions.
  Eigen::MatrixXd hop;

  int devices() const { return stages * replicas; }
};

/// Throws Error if stages · replicas differs from the number of devices, or if a communication time is not
/// finite.
CommCostModel comm_cost_model(const Topology& topology, const CommVolumes& volumes, int stages, int replicas);

/// Seconds. The search minimizes the total.
struct CommCost {
  double data_parallel = 0;      // DATAP: slowest gradient synchronization of a group
  double pipeline_parallel = 0;  // PIPELINEP: hops between consecutive stages, forward and backward
  double total() const { return data_parallel + pipeline_parallel; }
};

/// Gradient synchronization of one group, s: the maximum over its members of the sum over the other members.
double sync_cost(const CommCostModel& model, std::span<const int> group);

/// Loads the problem to pair the members of two groups: rows are those of `group`, columns those of `next`.
void load_groups(const CommCostModel& model, std::span<const int> group, std::span<const int> next,
                 BottleneckMatcher& matcher);

/// The edge weight w(C, C') of the paper, s: cost of the bottleneck perfect matching between two groups,
/// forward and backward.
double matching_cost(const CommCostModel& model, std::span<const int> group, std::span<const int> next,
                     BottleneckMatcher& matcher);

/// Cost of a placement exactly as deployed: stages in the order of its rows, pipelines as its columns.
CommCost comm_cost(const CommCostModel& model, const Placement& placement);

/// Returns the cheapest deployment of the groups (rows) of `placement`: the stages in the order of the
/// shortest open path (exact up to `max_exact_path_nodes` groups), consecutive stages joined by bottleneck
/// perfect matchings. Its `comm_cost` is the COMM-COST of the partition. Once `stop` returns true, the order
/// found so far is kept and only the matchings are computed.
Placement best_deployment(const CommCostModel& model, const Placement& placement,
                          const std::function<bool()>& stop = {});

/// Like `best_deployment`, but the order is only a local optimum, starting from the given one. This is much
/// cheaper from 14 groups on.
Placement improve_deployment(const CommCostModel& model, const Placement& placement,
                             const std::function<bool()>& stop = {});

/// Symmetric groups × groups matrix of w(C, C'), the bottleneck perfect matchings between the groups of
/// `placement`, in s. Once `stop` returns true, the remaining rows are left zero.
Eigen::MatrixXd coarsened_graph(const CommCostModel& model, const Placement& placement,
                                const std::function<bool()>& stop = {});

}  // namespace dtfm::cost
