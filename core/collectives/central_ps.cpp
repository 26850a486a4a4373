#include "core/collectives/collective.hpp"

namespace dtfm {

/// The first device sums everything, then sends the sum to all: 2 (a + (n − 1) S / B).
CollectiveMessages central_ps(std::span<const CollectiveMember> members, const CollectiveOptions&) {
  CollectivePhase there{.number = 0}, back{.number = 1, .adds = false};
  for (int i = 1; at(i) < members.size(); ++i) {
    there.messages.push_back({i, 0});
    back.messages.push_back({0, i});
  }
  return {.phases = {std::move(there), std::move(back)}};
}

}  // namespace dtfm
