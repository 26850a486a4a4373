#include "core/collectives/collective.hpp"

namespace dtfm {

/// Reduction to the first device and broadcast from it over a binomial tree: at most 2 ⌈log2 n⌉ (a + S / B).
CollectiveMessages tree(std::span<const CollectiveMember> members, const CollectiveOptions&) {
  const int n = static_cast<int>(members.size());
  CollectiveMessages result;
  int number = 0, reach = 1;
  for (; reach < n; reach *= 2, ++number)
    for (int i = reach; i < n; i += 2 * reach)
      result.phases.push_back({.number = number, .messages = {{i, i - reach}}});
  // Who has the sum sends it to one device after the other, the root of the largest part first.
  for (reach /= 2; reach > 0; reach /= 2, ++number) {
    CollectivePhase back{.number = number, .adds = false, .is_blocking = true};
    for (int i = 0; i + reach < n; i += 2 * reach) back.messages.push_back({i, i + reach});
    result.phases.push_back(std::move(back));
  }
  return result;
}

}  // namespace dtfm
