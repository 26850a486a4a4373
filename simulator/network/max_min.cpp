#include "simulator/network/max_min.hpp"

#include <algorithm>

#include "core/base/index.hpp"
#include "core/base/infinity.hpp"

namespace dtfm::sim {
namespace {

/// The remaining capacity of every shared link, the load of its rising flows at level 1, and their number.
struct Filling {
  std::vector<double> left, load;
  std::vector<int> rising;
};

Filling initial_filling(std::span<const LinkCapacity> links, std::span<const FlowDemand> flows) {
  Filling filling{std::vector<double>(links.size()), std::vector<double>(links.size()),
                  std::vector<int>(links.size())};
  for (std::size_t i = 0; i < links.size(); ++i) filling.left[i] = links[i].capacity;
  for (const FlowDemand& flow : flows)
    for (const LinkUse& use : flow.uses) {
      filling.load[at(use.link)] += flow.weight * use.share;
      ++filling.rising[at(use.link)];
    }
  return filling;
}

/// The highest level that the flow's own rate cap and the fat pipes on its way allow.
double level_cap(std::span<const LinkCapacity> links, const FlowDemand& flow) {
  double rate_cap = flow.rate_cap;
  for (const LinkUse& use : flow.uses) {
    const LinkCapacity& link = links[at(use.link)];
    if (link.sharing == Sharing::fatpipe) rate_cap = std::min(rate_cap, link.capacity / use.share);
  }
  return rate_cap / flow.weight;
}

/// The level at which the link is full if all its rising flows rise further.
double saturation_level(const Filling& filling, const LinkCapacity& link, std::size_t i) {
  if (link.sharing == Sharing::fatpipe || filling.rising[i] == 0) return infinity;
  return std::max(filling.left[i], 0.0) / filling.load[i];
}

void stop(Filling& filling, const FlowDemand& flow, double level) {
  for (const LinkUse& use : flow.uses) {
    filling.left[at(use.link)] -= flow.weight * use.share * level;
    filling.load[at(use.link)] -= flow.weight * use.share;
    --filling.rising[at(use.link)];
  }
}

}  // namespace

std::vector<double> max_min_rates(std::span<const LinkCapacity> links, std::span<const FlowDemand> flows) {
  Filling filling = initial_filling(links, flows);
  std::vector<double> rates(flows.size(), -1);
  for (std::size_t stopped = 0; stopped < flows.size();) {
    std::vector<double> limit(flows.size(), infinity);  // of each flow's level, by its links and its rate cap
    double level = infinity;
    for (std::size_t i = 0; i < flows.size(); ++i) {
      if (rates[i] >= 0) continue;
      limit[i] = level_cap(links, flows[i]);
      for (const LinkUse& use : flows[i].uses)
        limit[i] = std::min(limit[i], saturation_level(filling, links[at(use.link)], at(use.link)));
      level = std::min(level, limit[i]);
    }
    for (std::size_t i = 0; i < flows.size(); ++i) {
      if (rates[i] >= 0 || limit[i] > level) continue;
      rates[i] = flows[i].weight * level;
      stop(filling, flows[i], level);
      ++stopped;
    }
  }
  return rates;
}

}  // namespace dtfm::sim
