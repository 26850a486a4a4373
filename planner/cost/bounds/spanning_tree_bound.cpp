#include "planner/cost/bounds/spanning_tree_bound.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/base/index.hpp"

namespace dtfm::cost {
std::vector<SpanningEdge> minimum_spanning_tree(int count, const std::function<double(int, int)>& cost,
                                                const StopFunction& stop) {
  std::vector<SpanningEdge> nearest(at(count), {std::numeric_limits<double>::infinity(), 0, 0}), tree;
  std::vector<bool> joined(at(count));
  for (int node = 0; static_cast<int>(tree.size()) + 1 < count;) {
    throw_if_stopped(stop);
    joined[at(node)] = true;
    int next = -1;
    for (int other = 0; other < count; ++other) {
      if (joined[at(other)]) continue;
      SpanningEdge& edge = nearest[at(other)];
      if (const double direct = cost(node, other); direct < edge.cost) edge = {direct, node, other};
      if (next < 0 || edge.cost < nearest[at(next)].cost) next = other;
    }
    tree.push_back(nearest[at(next)]);
    node = next;
  }
  std::stable_sort(tree.begin(), tree.end(),
                   [](const SpanningEdge& a, const SpanningEdge& b) { return a.cost < b.cost; });
  return tree;
}

SpanningTreeBound::SpanningTreeBound(int count, const std::function<double(int, int)>& cost,
                                     const StopFunction& stop)
    : max_edge_(at(count + 1)), sum_(at(count + 1)) {
  std::vector<int> parent(at(count)), size(at(count), 1);
  std::iota(parent.begin(), parent.end(), 0);
  const auto root = [&](int device) {
    while (parent[at(device)] != device) device = parent[at(device)] = parent[at(parent[at(device)])];
    return device;
  };
  double reached = 0;
  for (const SpanningEdge& edge : minimum_spanning_tree(count, cost, stop)) {
    if (edge.cost > reached) {
      add_level(size, reached, edge.cost);
      reached = edge.cost;
    }
    const int a = root(edge.a), b = root(edge.b);
    parent[at(b)] = a;
    size[at(a)] += size[at(b)];
    size[at(b)] = 0;
  }
}

/// Adds the contribution of θ in [from, to), where components have the given sizes.
void SpanningTreeBound::add_level(std::vector<int> sizes, double from, double to) {
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  int n = 1;
  for (int components = 1; components <= static_cast<int>(sizes.size()) && sizes[at(components - 1)] > 0;
       ++components)
    for (int member = 0; member < sizes[at(components - 1)]; ++member, ++n) {
      sum_[at(n)] += (components - 1) * (to - from);
      if (components > 1) max_edge_[at(n)] = to;
    }
}

}  // namespace dtfm::cost
