// The order of the stages: the shortest open path through all groups (a travelling salesman who does not
// return).
#pragma once

#include <functional>
#include <span>
#include <vector>

#include <Eigen/Core>

namespace dtfm::cost {

/// Up to this many nodes `shortest_path` is exact.
inline constexpr int max_exact_path_nodes = 16;

double path_length(const Eigen::MatrixXd& weights, std::span<const int> order);

/// A permutation of 0 … n−1 over symmetric n × n `weights`: the shortest by dynamic programming (Held and
/// Karp, 1962) up to `max_exact_path_nodes`, else by `improve_path` from `start` and from greedy paths.
/// When `stop` says so, the best path by then.
std::vector<int> shortest_path(const Eigen::MatrixXd& weights, std::span<const int> start = {},
                                    const std::function<bool()>& stop = {});

/// A local optimum under 2-opt (reversal of a segment) and Or-opt (moving a segment of up to three nodes),
/// never longer than `order`. When `stop` says so, what it has become by then.
std::vector<int> improve_path(const Eigen::MatrixXd& weights, std::vector<int> order,
                                    const std::function<bool()>& stop = {});

}  // namespace dtfm::cost
