// Converts a topology to hosts, links and routes of a task graph: every constraint on a message becomes a
// link of its route. Host i is device i.
#pragma once

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "core/cluster/calibration.hpp"
#include "core/cluster/topology.hpp"
#include "simulator/graph/task_graph.hpp"
#include "simulator/lowering/device_symmetry.hpp"

namespace dtfm::sim {

/// The constraint that a link of the graph represents.
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
  /// Devices for flow, sender and device links, hosts (Device::host) for host links, otherwise sites. `to` of
  /// a sender link is the first receiver for which it was created; it is shared by all receivers of its
  /// entry. Uplinks and downlinks have no `to`.
  int from = no_index, to = no_index;
  int link_index = 0;  // for flow and sender: see Topology::link_index
};

/// Routes are created on first use, so that a graph contains only those that it needs.
///
/// The first link of a route belongs to its pair of devices alone; it has the latency and is the rate cap of
/// each flow. It is followed by the links that flows share, where they are limited:
/// - the sender's rate over the topology entry (`shared: sender`);
/// - the capacity of the pair of sites. Between hosts it is the minimum over all entries of the pair, and
///   holds also for flows whose own entry has none; messages inside hosts have a separate capacity, found in
///   the same way;
/// - uplink and downlink of the devices and of their hosts, for messages between hosts;
/// - uplink and downlink of the sites, for messages between sites.
/// Bandwidths are those of the topology in bytes per second; the graph's bandwidth factor is the network
/// efficiency.
///
/// With a symmetry, only links of representatives are created, and a flow counts on a shared link as often as
/// there are flows that it represents.
class LoweredNetwork {
 public:
  /// Adds a host for each device to `graph`, which must be empty, and sets its network model. `topology` and
  /// `graph` must outlive this.
  LoweredNetwork(const Topology& topology, const Calibration& constants, TaskGraph& graph,
                 DeviceSymmetry symmetry = {});

  /// Returns the index into TaskGraph::routes for messages from device `from` to device `to` ≠ `from`.
  int route(int from, int to);
  const DeviceSymmetry& symmetry() const { return symmetry_; }
  /// [link of the graph]
  const std::vector<LinkRole>& roles() const { return roles_; }

 private:
  using LinkKey =
      std::tuple<LinkRole::Kind, int, int, int>;  // kind, ends, and number among those of the ends
  int link(const LinkKey& key, const LinkRole& role, BitsPerSecond bandwidth, Seconds latency);
  Route make_route(int from, int to);

  const Topology& topology_;
  TaskGraph& graph_;
  const DeviceSymmetry symmetry_;
  std::map<std::tuple<int, int, bool>, BitsPerSecond> capacities_;  // {from site, to site, inside hosts}
  std::vector<LinkRole> roles_;
  std::map<std::pair<int, int>, int> routes_;
  std::map<LinkKey, int> links_;
};

}  // namespace dtfm::sim
