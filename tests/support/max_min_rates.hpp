// Weighted max-min fair rates of flows on shared links, computed directly from the definition: the slow
// reference for the incremental networks.
#pragma once

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include "core/base/index.hpp"
#include "core/base/infinity.hpp"
#include "simulator/network/link_use.hpp"

namespace dtfm {
using namespace sim;

struct FlowDemand {
  std::vector<LinkUse> uses;
  double weight = 1;  // above 0; flows with the same bottleneck get rates in proportion to their weights
  double rate_cap = std::numeric_limits<double>::infinity();  // bytes per second
};

namespace filling {

/// The remaining capacity of every shared link, the load of its rising flows at level 1, and their number.
struct Filling {
  std::vector<double> left, load;
  std::vector<int> rising;
};

inline Filling initial_filling(std::span<const LinkCapacity> links, std::span<const FlowDemand> flows) {
  Filling state{std::vector<double>(links.size()), std::vector<double>(links.size()),
                std::vector<int>(links.size())};
  for (std::size_t i = 0; i < links.size(); ++i) state.left[i] = links[i].capacity;
  for (const FlowDemand& flow : flows)
    for (const LinkUse& use : flow.uses) {
      state.load[at(use.link)] += flow.weight * use.share;
      ++state.rising[at(use.link)];
    }
  return state;
}

/// The highest level that the flow's own rate cap and the fat pipes on its way allow.
inline double level_cap(std::span<const LinkCapacity> links, const FlowDemand& flow) {
  double rate_cap = flow.rate_cap;
  for (const LinkUse& use : flow.uses) {
    const LinkCapacity& link = links[at(use.link)];
    if (link.sharing == Sharing::fatpipe) rate_cap = std::min(rate_cap, link.capacity / use.share);
  }
  return rate_cap / flow.weight;
}

/// The level at which the link is full if all its rising flows rise further.
inline double saturation_level(const Filling& state, const LinkCapacity& link, std::size_t i) {
  if (link.sharing == Sharing::fatpipe || state.rising[i] == 0) return infinity;
  return std::max(state.left[i], 0.0) / state.load[i];
}

inline void stop(Filling& state, const FlowDemand& flow, double level) {
  for (const LinkUse& use : flow.uses) {
    state.left[at(use.link)] -= flow.weight * use.share * level;
    state.load[at(use.link)] -= flow.weight * use.share;
    --state.rising[at(use.link)];
  }
}

}  // namespace filling

/// Returns the rate of every flow in bytes per second. No link exceeds its capacity, and each flow either has
/// reached its rate cap or crosses a full link on which no flow has a larger rate ÷ weight. Computed by
/// progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2): all levels (rate ÷ weight) rise
/// together, and a flow stops when the first of its links is full.
inline std::vector<double> max_min_rates(std::span<const LinkCapacity> links,
                                         std::span<const FlowDemand> flows) {
  filling::Filling state = filling::initial_filling(links, flows);
  std::vector<double> rates(flows.size(), -1);
  for (std::size_t stopped = 0; stopped < flows.size();) {
    std::vector<double> limit(flows.size(), infinity);  // of each flow's level, by its links and its rate cap
    double level = infinity;
    for (std::size_t i = 0; i < flows.size(); ++i) {
      if (rates[i] >= 0) continue;
      limit[i] = filling::level_cap(links, flows[i]);
      for (const LinkUse& use : flows[i].uses)
        limit[i] = std::min(limit[i], filling::saturation_level(state, links[at(use.link)], at(use.link)));
      level = std::min(level, limit[i]);
    }
    for (std::size_t i = 0; i < flows.size(); ++i) {
      if (rates[i] >= 0 || limit[i] > level) continue;
      rates[i] = flows[i].weight * level;
      filling::stop(state, flows[i], level);
      ++stopped;
    }
  }
  return rates;
}

}  // namespace dtfm
