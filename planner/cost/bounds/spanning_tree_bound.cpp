#include "planner/cost/bounds/spanning_tree_bound.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/base/index.hpp"

namespace dtfm::cost {
namespace {

struct Edge {
  double cost = 0;
  int a = 0, b = 0;
};

/// Prim's algorithm; returns the edges in ascending order of cost. Up to every θ the tree has the same
/// components as the complete graph.
std::vector<Edge> minimum_spanning_tree(int count, const std::function<double(int, int)>& cost,
                                        const StopFunction& stop) {
  std::vector<Edge> tree, nearest(at(count), {std::numeric_limits<double>::infinity(), 0, 0});
  std::vector<int> outside(at(std::max(0, count - 1)));
  std::iota(outside.begin(), outside.end(), 1);
  for (int last = 0; !outside.empty();) {
    throw_if_stopped(stop);
    std::size_t best = 0;
    for (std::size_t i = 0; i < outside.size(); ++i) {
      Edge& edge = nearest[at(outside[i])];
      const double direct = cost(last, outside[i]);
      if (direct < edge.cost) edge = {direct, last, outside[i]};
      if (edge.cost < nearest[at(outside[best])].cost) best = i;
    }
    last = outside[best];
    tree.push_back(nearest[at(last)]);
    outside[best] = outside.back();
    outside.pop_back();
  }
  std::stable_sort(tree.begin(), tree.end(), [](const Edge& a, const Edge& b) { return a.cost < b.cost; });
  return tree;
}

}  // namespace

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
  for (const Edge& edge : minimum_spanning_tree(count, cost, stop)) {
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
