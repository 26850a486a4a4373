#include <numeric>

#include "core/collectives/collective.hpp"

namespace dtfm {

/// Reduce-scatter and all-gather around a ring: 2 (n − 1) (a + S / (n B)). Messages between hosts use all
/// channels.
CollectiveMessages ring(std::span<const CollectiveMember> members, const CollectiveOptions& options) {
  std::vector<int> order(members.size());
  std::iota(order.begin(), order.end(), 0);
  order = grouped(order, [&](int member) { return members[at(member)].host; });  // enters each host only once
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
