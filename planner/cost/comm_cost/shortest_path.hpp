// Orders the stages by the shortest open path through all groups (a travelling salesman problem without
// return).
#pragma once

#include <functional>
#include <span>
#include <vector>

#include <Eigen/Core>

namespace dtfm::cost {

/// `shortest_path` is exact up to this many nodes.
inline constexpr int max_exact_path_nodes = 16;

double path_length(const Eigen::MatrixXd& weights, std::span<const int> order);

/// Returns a permutation of 0 … n−1 for symmetric n × n `weights`. Up to `max_exact_path_nodes` it is the
/// shortest path, by dynamic programming (Held and Karp, 1962); beyond, the best of `improve_path` from
/// `start` and from greedy paths. Once `stop` returns true, returns the best path found so far.
std::vector<int> shortest_path(const Eigen::MatrixXd& weights, std::span<const int> start = {},
                               const std::function<bool()>& stop = {});

/// Returns a local optimum under 2-opt (reversal of a segment) and Or-opt (moving a segment of up to three
/// nodes), never longer than `order`. Once `stop` returns true, returns the path reached so far.
std::vector<int> improve_path(const Eigen::MatrixXd& weights, std::vector<int> order,
                              const std::function<bool()>& stop = {});

}  // namespace dtfm::cost
