// How rings use all network cards of a host.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "core/cluster/topology.hpp"

namespace dtfm {

/// The devices of a collective, by host.
///
/// NCCL builds a ring for each network card of a host, and each ring enters and leaves the host through a
/// different device (its channels; Hu et al., arXiv 2507.04786, section 2). All rings carry equal parts of
/// the data at the same time. A message from one host to another is therefore sent in equal parts by as many
/// devices as the collective has on both of these hosts. Inside a host, the devices follow one another, so
/// that a ring enters each host only once.
class HostChannels {
 public:
  HostChannels(const Topology& topology, std::span<const int> devices);

  int hosts() const { return hosts_; }
  /// Indices of the devices, host by host. Hosts, and the devices of each, are in the order of the arguments.
  const std::vector<std::size_t>& order() const { return order_; }
  /// The sender and the receiver of each part of a message between these two devices of the collective; only
  /// they themselves if they are on one host. The pairs do not depend on the order of the devices.
  std::vector<std::pair<int, int>> between(int from, int to) const;
  /// The same for the message from the `position`-th device in `order` to the next one in the ring.
  std::vector<std::pair<int, int>> next_in_ring(std::size_t position) const;

  using IndexPairs = std::vector<std::pair<std::size_t, std::size_t>>;
  /// Appends the same pairs to `pairs`. All devices are given by their indices.
  void add_between(std::size_t from, std::size_t to, IndexPairs& pairs) const;

 private:
  using Range = std::pair<std::size_t, std::size_t>;  // [first, last) of members_
  Range members_on(int host) const;

  const Topology& topology_;
  std::vector<int> devices_;
  int hosts_ = 0;
  std::vector<std::size_t> order_;
  // Empty if all devices have hosts of their own.
  std::vector<std::size_t> members_;  // indices of the devices: by host; on a host, as they are paired
  std::vector<Range> on_host_;        // by device: those on its host
};

/// A device's successor in one or several rings, and the share of the data that it is sent.
struct RingHop {
  std::size_t to = 0;  // index of the device
  double share = 1;
};

/// The hops of each device in rings through all of them, by which NCCL reduce-scatters and all-gathers: one
/// ring in their order; or, with g consecutive devices on each of several hosts, g rings with 1 / g of the
/// data each. Every ring enters the hosts at a different device and leaves them at the device before it. The
/// g − 1 rings in which a device's successor is on the same host are merged into one hop.
std::vector<std::vector<RingHop>> parallel_rings(const Topology& topology, std::span<const int> devices);

}  // namespace dtfm
