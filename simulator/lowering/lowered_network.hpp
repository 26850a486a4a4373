// A topology as hosts, links and routes of a task graph: every constraint that applies to a message becomes a
// link of its route. Host i is device i.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "planner/core/topology.hpp"
#include "simulator/graph/task_graph.hpp"
#include "simulator/model/constants.hpp"

namespace dtfm {

/// What a link of the graph stands for.
struct LinkMeaning {
  enum class Kind { flow, sender, pair_capacity, device_uplink, device_downlink, site_uplink, site_downlink };
  Kind kind = Kind::flow;
  int from = no_index, to = no_index;  // devices for flow, sender and device links, else sites
};

/// Routes are made when they are first asked for, so that a graph has no more of them than it uses.
class LoweredNetwork {
 public:
  /// Adds a host for each device to `graph`, which both arguments must outlive.
  LoweredNetwork(const Topology& topology, const SimConstants& constants, TaskGraph& graph);

  /// Index into TaskGraph::routes of messages from device `from` to device `to` ≠ `from`.
  int route(int from, int to);
  /// Of each link of the graph.
  const std::vector<LinkMeaning>& meanings() const { return meanings_; }

 private:
  const Topology& topology_;
  const SimConstants& constants_;
  TaskGraph& graph_;
  std::vector<LinkMeaning> meanings_;
  std::map<std::pair<int, int>, int> routes_;
  std::map<std::pair<int, std::pair<int, int>>, int> links_;  // by kind and ends
};

}  // namespace dtfm
