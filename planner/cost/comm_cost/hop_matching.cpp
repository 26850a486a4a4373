#include "planner/cost/comm_cost/hop_matching.hpp"

#include <algorithm>
#include <bit>

#include "core/base/infinity.hpp"

namespace dtfm::cost {
namespace {

void set_within(HopMatching& hop, const HopGroups& groups, int slot, int next_slot) {
  std::uint64_t& word = hop.within[at(slot) * hop.words() + at(next_slot) / 64];
  const std::uint64_t bit = std::uint64_t{1} << (at(next_slot) % 64);
  word = groups.pair_s(slot, next_slot) <= hop.cost.slowest ? word | bit : word & ~bit;
}

/// Returns whether the hop still has a perfect matching no slower than its current one when `joining`
/// replaces the first (`is_first`) or second device of pair `slot`. Searches for an alternating path from the
/// row of that pair back to its column, breadth first over the sets of partners within the current cost.
bool can_keep_cost(const HopMatching& hop, const HopGroups& groups, int slot, int joining, bool is_first,
                   PathSearch& search) {
  auto& [unvisited, queue] = search;
  const double* costs = &groups.model.hop(0, joining);
  const int free_column = hop.next[at(slot)], replicas = static_cast<int>(hop.next.size());
  const std::size_t words = hop.words();
  const auto fits = [&](int peer) { return costs[peer] <= hop.cost.slowest; };
  unvisited.assign(words, ~std::uint64_t{0});
  unvisited[at(free_column) / 64] &= ~(std::uint64_t{1} << (at(free_column) % 64));
  queue.assign(1, slot);
  for (std::size_t i = 0; i < queue.size(); ++i) {
    const int row = queue[i];
    const std::uint64_t* within = &hop.within[at(row) * words];
    const bool newcomer = is_first && row == slot;
    if (i > 0 && (is_first ? (within[at(free_column) / 64] >> (at(free_column) % 64) & 1) != 0
                           : fits(groups.first[at(row)])))
      return true;
    for (std::size_t word = 0; word < words; ++word) {
      std::uint64_t columns = unvisited[word];
      if (!newcomer) columns &= within[word];
      for (; columns != 0; columns &= columns - 1) {
        const int column = static_cast<int>(word * 64) + std::countr_zero(columns);
        if (column >= replicas) break;
        if (newcomer && !fits(groups.second[at(column)])) continue;
        unvisited[word] &= ~(std::uint64_t{1} << (at(column) % 64));
        queue.push_back(hop.previous[at(column)]);
      }
    }
  }
  return false;
}

}  // namespace

HopMatching::HopMatching(int replicas)
    : next(at(replicas)), previous(at(replicas)), pair_s(at(replicas)), within(at(replicas) * words()) {}

void improve(HopMatching& hop, const HopGroups& groups, BottleneckMatcher& matcher, bool from_scratch) {
  load_groups(groups.model, groups.first, groups.second, matcher);
  from_scratch ? matcher.solve() : matcher.solve_from(hop.next);
  std::copy(matcher.column_of_row().begin(), matcher.column_of_row().end(), hop.next.begin());
  for (std::size_t slot = 0; slot < hop.next.size(); ++slot)
    hop.previous[at(hop.next[slot])] = static_cast<int>(slot);
  measure_pairs(hop, groups);
}

void measure_pairs(HopMatching& hop, const HopGroups& groups) {
  HopCost cost{-infinity, 0};
  double second = -infinity;
  for (int slot = 0; at(slot) < hop.next.size(); ++slot) {
    const double pair_s = hop.pair_s[at(slot)] = groups.pair_s(slot, hop.next[at(slot)]);
    cost.total += pair_s;
    if (pair_s > cost.slowest) {
      second = cost.slowest;
      cost.slowest = pair_s;
      hop.slowest_slot = slot;
    } else {
      second = std::max(second, pair_s);
    }
  }
  hop.cost = cost;
  hop.second = second;
}

void set_all_within(HopMatching& hop, const HopGroups& groups) {
  const int replicas = static_cast<int>(hop.next.size());
  auto set_of = hop.within.begin();
  for (const int device : groups.first) {
    const double* costs = &groups.model.hop(0, device);
    for (int first = 0; first < replicas; first += 64, ++set_of) {
      std::uint64_t set = 0;
      for (int other = first; other < std::min(first + 64, replicas); ++other)
        set |= static_cast<std::uint64_t>(costs[groups.second[at(other)]] <= hop.cost.slowest)
               << (other - first);
      *set_of = set;
    }
  }
}

void set_within_of(HopMatching& hop, const HopGroups& groups, int slot, bool is_first) {
  for (int other = 0; at(other) < hop.next.size(); ++other)
    is_first ? set_within(hop, groups, slot, other) : set_within(hop, groups, other, slot);
}

HopCost after_changing_pair(const HopMatching& hop, int slot, double pair_s) {
  const double others = slot == hop.slowest_slot ? hop.second : hop.cost.slowest;
  return {std::max(others, pair_s), hop.cost.total - hop.pair_s[at(slot)] + pair_s};
}

HopCost after_replacing(const HopMatching& hop, const HopGroups& groups, int slot, int joining, bool is_first,
                        PathSearch& search) {
  const int pair = is_first ? slot : hop.previous[at(slot)];
  const int partner = is_first ? groups.second[at(hop.next[at(pair)])] : groups.first[at(pair)];
  const double pair_s = groups.model.hop(partner, joining);
  const HopCost kept = after_changing_pair(hop, pair, pair_s);
  if (pair_s <= hop.cost.slowest) return kept;
  if (can_keep_cost(hop, groups, pair, joining, is_first, search)) return hop.cost;
  const double* joining_hop = &groups.model.hop(0, joining);
  const double* left_hop = &groups.model.hop(0, partner);
  const double others = pair == hop.slowest_slot ? hop.second : hop.cost.slowest;
  double slowest = pair_s, change = 0;
  for (int other = 0; at(other) < hop.next.size(); ++other) {
    const int first = groups.first[at(other)], second = groups.second[at(hop.next[at(other)])];
    const double mine = joining_hop[is_first ? second : first];
    const double theirs = left_hop[is_first ? first : second];
    if (other == pair || std::max(mine, theirs) >= slowest) continue;
    slowest = std::max(mine, theirs);
    change = mine + theirs - pair_s - hop.pair_s[at(other)];
  }
  return {std::max(others, slowest), kept.total + change};
}

HopCost after_replacing_both(const HopMatching& hop, const HopGroups& groups, std::pair<int, int> in_first,
                             std::pair<int, int> in_second, BottleneckMatcher& matcher) {
  load_groups(groups.model, groups.first, groups.second, matcher);
  matcher.set_row(in_first.first, &groups.model.hop(0, in_first.second));
  matcher.set_column(in_second.first, in_second.second);
  HopCost after{matcher.solve_from(hop.next), 0};
  for (int slot = 0; at(slot) < hop.next.size(); ++slot)
    after.total += matcher.cost(slot, matcher.column_of_row()[at(slot)]);
  return after;
}

}  // namespace dtfm::cost
