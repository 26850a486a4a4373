#include "planner/cost/comm_cost/comm_cost.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "planner/cost/comm_cost/bottleneck_matching.hpp"
#include "planner/cost/comm_cost/shortest_path.hpp"

namespace dtfm::cost {

void load_groups(const CommCostModel& model, std::span<const int> group, std::span<const int> next,
                 BottleneckMatcher& matcher) {
  for (std::size_t i = 0; i < group.size(); ++i) {
    matcher.set_row(static_cast<int>(i), &model.hop(0, group[i]));  // `hop` is symmetric: a column is a row
    matcher.set_column(static_cast<int>(i), next[i]);
  }
}

namespace {

/// Returns `group` reordered by the bottleneck matching: element r is the partner of previous[r].
std::vector<int> matched_group(const CommCostModel& model, std::span<const int> previous,
                               std::span<const int> group, BottleneckMatcher& matcher) {
  load_groups(model, previous, group, matcher);
  matcher.solve();
  std::vector<int> matched;
  for (const int column : matcher.column_of_row()) matched.push_back(group[at(column)]);
  return matched;
}

}  // namespace

CommCostModel comm_cost_model(const Topology& topology, const CommVolumes& volumes, int stages,
                              int replicas) {
  const int n = topology.size();
  if (stages < 1 || replicas < 1 || static_cast<long long>(stages) * replicas != n)
    throw Error("", fmt::format("{} stages × {} replicas need {} devices, but the topology has {}", stages,
                                replicas, static_cast<long long>(stages) * replicas, n));
  CommCostModel model{stages, replicas, Eigen::MatrixXd::Zero(n, n), Eigen::MatrixXd::Zero(n, n)};
  const Bytes shard = volumes.gradient / replicas;
  for (int a = 0; a < n; ++a) {
    for (int b = a + 1; b < n; ++b) {
      const Link there = topology.link(a, b), back = topology.link(b, a);
      const Seconds latency = there.latency + back.latency;
      model.sync(a, b) = model.sync(b, a) =
          (latency + shard / there.bandwidth + shard / back.bandwidth).value();
      model.hop(a, b) = model.hop(b, a) =
          (latency + volumes.activation / there.bandwidth + volumes.activation / back.bandwidth).value();
    }
  }
  if (n > 1 && !(std::isfinite(model.sync.sum()) && std::isfinite(model.hop.sum())))
    throw Error("", "a communication time overflows: a link is too slow or a message too large");
  return model;
}

double sync_cost(const CommCostModel& model, std::span<const int> group) {
  double slowest = 0;
  for (const int device : group) {
    double sum = 0;
    for (const int peer : group) sum += model.sync(peer, device);  // the diagonal of `sync` is zero
    slowest = std::max(slowest, sum);
  }
  return slowest;
}

CommCost comm_cost(const CommCostModel& model, const Placement& placement) {
  CommCost cost;
  for (int stage = 0; stage < placement.stages(); ++stage)
    cost.data_parallel = std::max(cost.data_parallel, sync_cost(model, placement.group(stage)));
  for (int stage = 0; stage + 1 < placement.stages(); ++stage) {
    double slowest = 0;
    for (int replica = 0; replica < placement.replicas(); ++replica)
      slowest = std::max(slowest, model.hop(placement.at(stage, replica), placement.at(stage + 1, replica)));
    cost.pipeline_parallel += slowest;
  }
  return cost;
}

double matching_cost(const CommCostModel& model, std::span<const int> group, std::span<const int> next,
                     BottleneckMatcher& matcher) {
  load_groups(model, group, next, matcher);
  return matcher.solve();
}

Eigen::MatrixXd coarsened_graph(const CommCostModel& model, const Placement& placement,
                                const std::function<bool()>& stop) {
  const int n = placement.stages();
  BottleneckMatcher matcher(placement.replicas());
  Eigen::MatrixXd weights = Eigen::MatrixXd::Zero(n, n);
  for (int a = 0; a < n && !(stop && stop()); ++a)
    for (int b = a + 1; b < n; ++b)
      weights(a, b) = weights(b, a) = matching_cost(model, placement.group(a), placement.group(b), matcher);
  return weights;
}

namespace {

/// Finds an order of the stages in the coarsened graph, starting from the given one.
using FindOrder = std::function<std::vector<int>(const Eigen::MatrixXd& graph, std::vector<int> order,
                                                 const std::function<bool()>& stop)>;

Placement deployment(const CommCostModel& model, const Placement& placement,
                     const std::function<bool()>& stop, const FindOrder& find_order) {
  // `must_stop` latches: otherwise `find_order` could run on a graph of which only some rows are filled.
  bool stopped = false;
  const auto must_stop = [&] { return stopped = stopped || (stop && stop()); };
  const Eigen::MatrixXd graph = coarsened_graph(model, placement, must_stop);
  std::vector<int> order(at(placement.stages()));
  std::iota(order.begin(), order.end(), 0);
  if (!stopped) order = find_order(graph, order, must_stop);
  BottleneckMatcher matcher(placement.replicas());
  Placement deployed(placement.stages(), placement.replicas());
  std::vector<int> group;
  for (int stage = 0; stage < placement.stages(); ++stage) {
    const auto members = placement.group(order[at(stage)]);
    group = stage == 0 ? std::vector<int>(members.begin(), members.end())
                       : matched_group(model, group, members, matcher);
    for (int replica = 0; replica < placement.replicas(); ++replica)
      deployed.at(stage, replica) = group[at(replica)];
  }
  return deployed;
}

}  // namespace

Placement best_deployment(const CommCostModel& model, const Placement& placement,
                          const std::function<bool()>& stop) {
  return deployment(model, placement, stop, shortest_path);
}

Placement improve_deployment(const CommCostModel& model, const Placement& placement,
                             const std::function<bool()>& stop) {
  return deployment(model, placement, stop, improve_path);
}

}  // namespace dtfm::cost
