// A hop between two consecutive stages of a placement: which slots of the two are partners, and what changes
// if devices are replaced.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/base/index.hpp"
#include "planner/cost/comm_cost/bottleneck_matching.hpp"
#include "planner/cost/comm_cost/comm_cost.hpp"

namespace dtfm::cost {

/// The devices on both sides of a hop, by slot.
struct HopGroups {
  const CommCostModel& model;
  std::span<const int> first, second;

  double pair_s(int slot, int next_slot) const { return model.hop(second[at(next_slot)], first[at(slot)]); }
};

/// Seconds of the slowest pair, and the sum over all pairs.
struct HopCost {
  double slowest = 0, total = 0;
};

struct HopMatching {
  HopCost cost;
  double second = 0;                // s, second slowest pair
  int slowest_slot = 0;             // in the first stage
  std::vector<int> next, previous;  // slot of the partner, by slot of the first and of the second stage
  std::vector<double> pair_s;       // cost of the pair, by slot of the first stage
  /// Bit sets, by slot of the first stage: slots of the second that are no slower partners than the slowest.
  std::vector<std::uint64_t> within;

  explicit HopMatching(int replicas);
  /// Words of a bit set.
  std::size_t words() const { return (next.size() + 63) / 64; }
};

/// Scratch space of `after_replacing`, which thus does not allocate.
struct PathSearch {
  std::vector<std::uint64_t> unvisited;
  std::vector<int> queue;
};

/// Makes the matching optimal. `from_scratch`: does not start from the current one.
void improve(HopMatching& hop, const HopGroups& groups, BottleneckMatcher& matcher,
             bool from_scratch = false);

/// Updates the costs of the pairs, after devices have been replaced.
void measure_pairs(HopMatching& hop, const HopGroups& groups);

/// Updates the bit sets `within` after the cost has changed, or after a slot of one stage has a new device.
void set_all_within(HopMatching& hop, const HopGroups& groups);
void set_within_of(HopMatching& hop, const HopGroups& groups, int slot, bool is_first);

/// The hop if the pair of `slot` costs `pair_s`.
HopCost after_changing_pair(const HopMatching& hop, int slot, double pair_s);

/// The hop if `joining` replaces the device in `slot` of the first (`is_first`) or second stage. If the
/// current pairs would then be slower than the hop is now, looks for a matching that is not; failing that,
/// for the best swap of two partners.
HopCost after_replacing(const HopMatching& hop, const HopGroups& groups, int slot, int joining, bool is_first,
                        PathSearch& search);

/// The hop, optimally matched, if a device of each stage is replaced: {slot, joining}.
HopCost after_replacing_both(const HopMatching& hop, const HopGroups& groups, std::pair<int, int> in_first,
                             std::pair<int, int> in_second, BottleneckMatcher& matcher);

}  // namespace dtfm::cost
