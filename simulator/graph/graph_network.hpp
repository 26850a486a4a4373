// The current state of the links of a task graph, and the parameters of flows that start on them.
#pragma once

#include <span>
#include <vector>

#include "core/base/index.hpp"
#include "simulator/graph/task_graph.hpp"
#include "simulator/network/fluid_network.hpp"

namespace dtfm::sim {

/// Parameters of a flow that are fixed when it starts.
struct FlowParameters {
  double latency = 0;  // s before its first byte moves
  double weight = 1;
  double rate_cap = 0;  // bytes per second
};

/// A flow or shared computation that is active in the fluid network. It ends `trailing_latency` seconds after
/// its last byte.
struct ActiveFlow {
  int task = 0;
  double trailing_latency = 0;
};

/// The shared capacities: first the links, then the hosts whose computations share the processor or whose
/// speed changes. Fat pipes that never change are no capacities, but limits of the flows' rates, because
/// there may be one for every pair of hosts.
class GraphNetwork {
 public:
  /// Throws WorkStopped.
  GraphNetwork(const TaskGraph& graph, const StopFunction& stop);

  FlowParameters parameters(const Task& flow) const;
  /// Stores the parameters of a flow during its latency, under a number that is reused after `take`.
  int store(const FlowParameters& parameters);
  FlowParameters take(int number);
  /// Starts to transfer the bytes of a flow, or to process a computation on a host of the fluid model.
  /// Returns the number of the flow in `fluid()`.
  int add(int task, const FlowParameters& parameters, double trailing_latency);
  void remove(int flow) { fluid_.remove(flow); }
  const ActiveFlow& active(int flow) const { return active_[at(flow)]; }
  FluidNetwork& fluid() { return fluid_; }
  const FluidNetwork& fluid() const { return fluid_; }
  /// Whether `fluid()` determines the rates of this host's computations. Otherwise their duration is known
  /// when they start.
  bool uses_fluid_model(int host) const { return host_capacity(host) != no_index; }

  /// The shared capacities that a task uses.
  std::span<const LinkUse> uses_of(const Task& task) const;
  /// The index in `fluid()` of a link or, for speeds, of a host. Links that no profile changes may have
  /// none.
  int capacity_of(Profile::Quantity quantity, int index) const;
  /// Sets the quantity of a link or, for speeds, of a host.
  void set(Profile::Quantity quantity, int index, double value);

  void set_down(const Failure& failure, bool down);
  bool has_failures() const { return total_down_ > 0; }
  /// Whether a host or link that the task uses is down.
  bool is_down(const Task& task) const;

 private:
  int host_capacity(int host) const { return capacity_[graph_.links.size() + at(host)]; }
  void add_uses(const Route& route);
  void add_use(int link, double share);

  const TaskGraph& graph_;
  std::vector<double> bandwidth_, latency_;
  std::vector<int> capacity_;   // of each link, then of each host: number in fluid_, or no_index
  std::vector<int> first_use_;  // of each route, then of each host
  std::vector<LinkUse> uses_;
  std::vector<FlowParameters> stored_;
  std::vector<int> unused_;                   // numbers of `stored_`
  std::vector<ActiveFlow> active_;            // [flow of fluid_]
  std::vector<int> links_down_, hosts_down_;  // number of concurrent failures
  int total_down_ = 0;
  FluidNetwork fluid_;
};

}  // namespace dtfm::sim
