#include "planner/search/comm_cost/hop_levels.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "core/base/index.hpp"

namespace dtfm::search {
namespace {

HopLevel level_of(const DeviceClassNetwork& network, double cost, double beyond) {
  const int n = network.classes();
  HopLevel level{cost, beyond, std::vector<int>(at(n)), {}};
  std::iota(level.component.begin(), level.component.end(), 0);
  for (int a = 0; a < n; ++a)
    for (int b = 0; b < a; ++b)
      if (network.hop(a, b) <= cost)
        std::replace(level.component.begin(), level.component.end(), level.component[at(a)],
                     level.component[at(b)]);
  std::vector<int> number(at(n), -1);
  for (int c = 0; c < n; ++c) {
    int& index = number[at(level.component[at(c)])];
    if (index < 0) {
      index = level.components();
      level.size.push_back(0);
    }
    level.component[at(c)] = index;
    level.size[at(index)] += network.size(c);
  }
  return level;
}

/// Whether two levels have the same components, and the same classes with a hop within the level.
bool is_like(const DeviceClassNetwork& network, const HopLevel& a, const HopLevel& b) {
  for (int c = 0; c < network.classes(); ++c)
    if ((network.min_hop(c) > a.cost) != (network.min_hop(c) > b.cost)) return false;
  return a.component == b.component;
}

}  // namespace

std::vector<HopLevel> hop_levels(const DeviceClassNetwork& network) {
  std::set<double> costs;
  for (int a = 0; a < network.classes(); ++a)
    for (int b = 0; b <= a; ++b)
      if (network.hop(a, b) < std::numeric_limits<double>::infinity()) costs.insert(network.hop(a, b));
  std::vector<HopLevel> levels;
  for (auto cost = costs.begin(); cost != costs.end() && std::next(cost) != costs.end(); ++cost) {
    HopLevel level = level_of(network, *cost, *std::next(cost));
    if (!levels.empty() && is_like(network, levels.back(), level))
      levels.back().beyond = level.beyond;
    else
      levels.push_back(std::move(level));
  }
  return levels;
}

}  // namespace dtfm::search
