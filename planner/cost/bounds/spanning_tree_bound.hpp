// What it costs at least to connect some number of devices, whichever they are.
#pragma once

#include <functional>
#include <vector>

namespace dtfm::cost {

/// Of `count` devices 0, 1, … and a symmetric cost of every pair, not negative.
///
/// A graph that connects n of them has, for every θ, at least q − 1 edges that cost more than θ, where q is
/// the least number of components of the graph of all pairs that cost at most θ which n devices can lie in:
/// its largest ones. So its dearest edge costs no less than the least θ with q = 1, and all of them together
/// no less than the integral of q − 1 over θ.
class SpanningTreeBound {
 public:
  SpanningTreeBound(int count, const std::function<double(int, int)>& cost);

  /// Of a connected graph on `n` devices, 1 ≤ n ≤ count: the dearest edge, and all edges.
  double max_edge(int n) const { return max_edge_[static_cast<std::size_t>(n)]; }
  double sum(int n) const { return sum_[static_cast<std::size_t>(n)]; }

 private:
  void add_level(std::vector<int> sizes, double from, double to);

  std::vector<double> max_edge_, sum_;
};

}  // namespace dtfm::cost
