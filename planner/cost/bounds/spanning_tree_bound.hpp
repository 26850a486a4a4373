// The cheapest way to connect all devices, and lower bounds on the cost of connecting a given number of them,
// whichever they are.
#pragma once

#include <functional>
#include <vector>

#include "core/base/stop.hpp"

namespace dtfm::cost {

struct SpanningEdge {
  double cost = 0;
  int a = 0, b = 0;
};

/// Prim's algorithm from node 0, of 0, 1, …; the edges in ascending order of cost. Up to every cost the tree
/// has the same components as the complete graph. Throws WorkStopped.
std::vector<SpanningEdge> minimum_spanning_tree(int count, const std::function<double(int, int)>& cost,
                                                const StopFunction& stop = {});

/// For `count` devices 0, 1, … and a symmetric, non-negative cost of every pair.
///
/// For every θ, a graph that connects n devices has at least q − 1 edges that cost more than θ. Here q is the
/// least number of components that can contain n devices, namely the largest ones, in the graph of all pairs
/// with cost ≤ θ. So the most expensive edge costs at least the least θ with q = 1, and all edges together
/// cost at least the integral of q − 1 over θ.
class SpanningTreeBound {
 public:
  /// Throws WorkStopped.
  SpanningTreeBound(int count, const std::function<double(int, int)>& cost, const StopFunction& stop = {});

  /// Lower bounds for a connected graph on `n` devices, 1 ≤ n ≤ count: its most expensive edge, and the sum
  /// of all its edges.
  double max_edge(int n) const { return max_edge_[static_cast<std::size_t>(n)]; }
  double sum(int n) const { return sum_[static_cast<std::size_t>(n)]; }

 private:
  void add_level(std::vector<int> sizes, double from, double to);

  std::vector<double> max_edge_, sum_;
};

}  // namespace dtfm::cost
