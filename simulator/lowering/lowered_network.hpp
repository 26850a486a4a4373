// A topology as hosts, links and routes of a task graph: every constraint that applies to a message becomes a
// link of its route. Host i is device i.
#pragma once

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/core/calibration.hpp"
#include "planner/core/topology.hpp"
#include "simulator/graph/task_graph.hpp"

namespace dtfm::sim {

/// What a link of the graph stands for.
struct LinkRole {
  enum class Kind {
    flow,
    sender,
    pair_capacity,
    device_uplink,
    device_downlink,
    host_uplink,
    host_downlink,
    site_uplink,
    site_downlink
  };
  Kind kind = Kind::flow;
  /// Devices for flow, sender and device links, hosts (Device::host) for host links, else sites. `to` of a
  /// sender's link is the first peer that it was made for (it is shared by all peers of its entry); of
  /// uplinks and downlinks there is none.
  int from = no_index, to = no_index;
  int link_index = 0;  // of the topology's links (Topology::entry), for flow and sender
};

/// Routes are made when they are first asked for, so that a graph has no more of them than it uses.
///
/// Every route has a link of its own pair of devices, which bears the latency and caps each flow; then what
/// the flow shares with others: its sender's rate over the entry (`shared: sender`), the capacity of the pair
/// of sites (from host to host the least that any of their entries gives holds for all, also where the flow's
/// own entry gives none; the same apart for messages inside hosts), uplink and downlink of the devices and of
/// their hosts (not inside a host) and of the sites (not inside a site). Bandwidths are those of the topology
/// in bytes per second; the graph's bandwidth factor is the network efficiency.
class LoweredNetwork {
 public:
  /// Adds a host for each device to `graph` and sets its model; both arguments must outlive this.
  LoweredNetwork(const Topology& topology, const Calibration& constants, TaskGraph& graph);

  /// Index into TaskGraph::routes of messages from device `from` to device `to` ≠ `from`.
  int route(int from, int to);
  /// Of each link of the graph.
  const std::vector<LinkRole>& roles() const { return roles_; }

 private:
  using LinkKey = std::tuple<LinkRole::Kind, int, int, int>;  // two ends, and which of several
  int link(const LinkKey& key, const LinkRole& role, BitsPerSecond bandwidth, Seconds latency);
  std::vector<int> links_between(int from, int to);

  const Topology& topology_;
  TaskGraph& graph_;
  std::map<std::tuple<int, int, bool>, BitsPerSecond> capacities_;  // by sites, and whether inside hosts
  std::vector<LinkRole> roles_;
  std::map<std::pair<int, int>, int> routes_;
  std::map<LinkKey, int> links_;
};

}  // namespace dtfm::sim
