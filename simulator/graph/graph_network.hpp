// The links of a task graph as they are now, and what a flow gets that starts now.
#pragma once

#include <span>
#include <vector>

#include "planner/core/index.hpp"
#include "simulator/graph/task_graph.hpp"
#include "simulator/network/fluid_network.hpp"

namespace dtfm::sim {

/// What is fixed for a flow at its start.
struct FlowParameters {
  double latency = 0;  // seconds before its first byte moves
  double weight = 1;
  double rate_cap = 0;  // bytes per second
};

/// The shared capacities: links, and behind them the hosts whose computations share the processor or change
/// their speed.
class GraphNetwork {
 public:
  explicit GraphNetwork(const TaskGraph& graph);

  FlowParameters parameters(const Task& flow) const;
  /// Begins to move the bytes of a flow, or to do the work of a computation on a host that is shared; the
  /// number of the flow in `fluid()`.
  int add(const Task& task, double weight, double rate_cap);
  FluidNetwork& fluid() { return fluid_; }
  const FluidNetwork& fluid() const { return fluid_; }
  /// Whether computations of this host are moved by `fluid()`; else they take a time that is known when they
  /// start.
  bool uses_fluid_model(int host) const { return host_links_[at(host)] != no_index; }

  /// What a task shares with others.
  std::span<const LinkUse> uses_of(const Task& task) const;
  /// The shared capacity of a link or, for the speed, of a host.
  int capacity_of(Profile::Quantity quantity, int index) const;
  /// Of a link or, for the speed, a host.
  void set(Profile::Quantity quantity, int index, double value);

  void set_down(const Failure& failure, bool down);
  bool has_failures() const { return total_down_ > 0; }
  /// Whether something that the task uses is down.
  bool is_down(const Task& task) const;

 private:
  void add_uses(const Route& route);

  const TaskGraph& graph_;
  std::vector<double> bandwidth_, latency_;
  std::vector<int> host_links_;  // behind those of the graph; no_index
  std::vector<int> first_use_;   // of each route, then of each host
  std::vector<LinkUse> uses_;
  std::vector<int> links_down_, hosts_down_;  // how many failures there are at once
  int total_links_down_ = 0, total_down_ = 0;
  FluidNetwork fluid_;
};

}  // namespace dtfm::sim
