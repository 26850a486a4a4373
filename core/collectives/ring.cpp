#include <algorithm>
#include <numeric>

#include "core/collectives/collective.hpp"

namespace dtfm {
namespace {

/// Host by host, so that the ring enters each only once. Hosts, and the members of each, are in the order of
/// the members.
std::vector<int> host_order(std::span<const CollectiveMember> members) {
  std::vector<int> first(members.size()), order(members.size());  // `first`: on the same host
  for (std::size_t i = 0; i < members.size(); ++i)
    first[i] = static_cast<int>(std::find_if(members.begin(), members.end(),
                                             [&](const auto& it) { return it.host == members[i].host; }) -
                                members.begin());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return first[at(a)] < first[at(b)]; });
  return order;
}

}  // namespace

/// Reduce-scatter and all-gather around a ring: 2 (n − 1) (a + S / (n B)). Messages between hosts use all
/// channels.
CollectiveMessages ring(std::span<const CollectiveMember> members, const CollectiveOptions& options) {
  const std::vector<int> order = host_order(members);
  int hosts = 1;
  for (std::size_t i = 1; i < order.size(); ++i)
    hosts += members[at(order[i])].host == members[at(order[i - 1])].host ? 0 : 1;
  CollectiveMessages result{.chunks = static_cast<int>(members.size())};
  // Between two hosts, the first sends to the second on the connections on which the second sends to the
  // first.
  add_ring(order, 0, 0, hosts == 2, options, result);
  return result;
}

}  // namespace dtfm
