// The two properties that define max-min fair rates, and random networks to check them on.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "core/base/index.hpp"
#include "core/base/rng.hpp"
#include "tests/support/max_min_rates.hpp"
#include "tests/support/catch.hpp"

namespace dtfm {
using namespace sim;

/// Relative differences below this are rounding errors.
inline constexpr double fair_tolerance = 1e-8;

inline std::vector<double> used_capacity(std::span<const LinkCapacity> links,
                                         std::span<const FlowDemand> flows, std::span<const double> rates) {
  std::vector<double> used(links.size());
  for (std::size_t i = 0; i < flows.size(); ++i)
    for (const LinkUse& use : flows[i].uses) used[at(use.link)] += use.share * rates[i];
  return used;
}

/// Whether the flow's rate is limited only by its own rate cap, including that of a link that is not shared.
inline bool is_at_rate_cap(std::span<const LinkCapacity> links, const FlowDemand& flow, double rate) {
  double rate_cap = flow.rate_cap;
  for (const LinkUse& use : flow.uses)
    if (links[at(use.link)].sharing == Sharing::fatpipe)
      rate_cap = std::min(rate_cap, links[at(use.link)].capacity / use.share);
  CHECK(rate <= rate_cap * (1 + fair_tolerance));
  return rate >= rate_cap * (1 - fair_tolerance);
}

inline void check_max_min_fair(std::span<const LinkCapacity> links, std::span<const FlowDemand> flows,
                               std::span<const double> rates) {
  const std::vector<double> used = used_capacity(links, flows, rates);
  std::vector<double> highest(links.size());
  for (std::size_t i = 0; i < flows.size(); ++i)
    for (const LinkUse& use : flows[i].uses)
      highest[at(use.link)] = std::max(highest[at(use.link)], rates[i] / flows[i].weight);
  for (std::size_t i = 0; i < links.size(); ++i)
    if (links[i].sharing == Sharing::shared) CHECK(used[i] <= links[i].capacity * (1 + fair_tolerance));
  for (std::size_t i = 0; i < flows.size(); ++i) {
    const bool has_bottleneck =
        std::any_of(flows[i].uses.begin(), flows[i].uses.end(), [&](const LinkUse& use) {
          const LinkCapacity& link = links[at(use.link)];
          return link.sharing == Sharing::shared &&
                 used[at(use.link)] >= link.capacity * (1 - fair_tolerance) &&
                 rates[i] / flows[i].weight >= highest[at(use.link)] * (1 - fair_tolerance);
        });
    CHECK((has_bottleneck || is_at_rate_cap(links, flows[i], rates[i])));
  }
}

/// Returns a small integer, so that many links saturate at the same level, or any number, or occasionally 0
/// (an outage).
inline double random_capacity(Rng& rng) {
  if (rng.below(20) == 0) return 0;
  return rng.below(2) == 0 ? 1 + rng.below(4) : 0.1 + 10 * rng.uniform();
}

inline std::vector<LinkCapacity> random_links(Rng& rng) {
  std::vector<LinkCapacity> links(1 + rng.below(12));
  for (LinkCapacity& link : links)
    link = {random_capacity(rng), rng.below(5) == 0 ? Sharing::fatpipe : Sharing::shared};
  return links;
}

inline FlowDemand random_flow(Rng& rng, std::size_t links) {
  FlowDemand flow;
  for (std::uint32_t i = 0; i < 1 + rng.below(4); ++i)
    flow.uses.push_back(
        {static_cast<int>(rng.below(static_cast<std::uint32_t>(links))), rng.below(4) == 0 ? 0.05 : 1.0});
  if (rng.below(3) == 0) flow.weight = 0.1 + rng.uniform();
  if (rng.below(3) == 0) flow.rate_cap = 0.05 + rng.uniform();
  return flow;
}

}  // namespace dtfm
