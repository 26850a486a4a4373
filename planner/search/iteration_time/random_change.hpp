// Random choices of the searches: which change to make to a plan, and whether to accept the result.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "core/base/error.hpp"
#include "core/base/rng.hpp"

namespace dtfm::search {

/// What a change requires of a plan.
enum class ChangeRequires {
  nothing,
  order,         // of pipelines, because the gradient synchronization depends on it
  mixed_degrees  // tensor degrees may differ between stages
};

struct ChangeConditions {
  bool is_ordered = false, has_mixed_degrees = false;

  bool meet(ChangeRequires required) const {
    return required == ChangeRequires::order           ? is_ordered
           : required == ChangeRequires::mixed_degrees ? has_mixed_degrees
                                                       : true;
  }
};

/// One of the changes whose requirements are met, with a probability in proportion to its `odds`. At least
/// one must require nothing.
template <class Change, std::size_t n>
const Change& random_change(const std::array<Change, n>& changes, const ChangeConditions& conditions,
                            Rng& rng) {
  int total = 0;
  for (const Change& it : changes)
    if (conditions.meet(it.required)) total += it.odds;
  int number = static_cast<int>(rng.below(static_cast<std::uint32_t>(total)));
  for (const Change& it : changes)
    if (conditions.meet(it.required) && (number -= it.odds) < 0) return it;
  DTFM_ASSERT(false);
  return changes.front();
}

/// Draws the highest energy of a plan that may replace one of energy `now`, by the criterion of Metropolis: a
/// plan that is worse by d is accepted with probability exp(−d / temperature).
inline double acceptance_limit(double now, double temperature, Rng& rng) {
  return now - temperature * std::log(rng.uniform());
}

}  // namespace dtfm::search
