// Who gets how much of shared links: weighted max-min fairness, by the definition. Slow and plain; what
// fluid_network computes step by step is tested against it.
#pragma once

#include <limits>
#include <span>
#include <vector>

namespace dtfm::sim {

enum class Sharing {
  shared,   // all flows together stay within the capacity
  fatpipe,  // each flow does by itself
};

struct LinkCapacity {
  double capacity = 0;  // bytes per second; 0: nothing moves
  Sharing sharing = Sharing::shared;
};

/// A flow takes `share` × its rate of the link. A link may come more than once: the shares add up.
struct LinkUse {
  int link = 0;
  double share = 1;
};

struct FlowDemand {
  std::vector<LinkUse> uses;
  double weight = 1;  // above 0: flows with the same bottleneck have rates in proportion to their weights
  double rate_cap = std::numeric_limits<double>::infinity();  // the most that the flow can use by itself
};

/// The rate of every flow: no link is over its capacity, and each flow has its ceiling, or a full link on
/// which no flow's rate ÷ weight is larger than its own. Found by progressive filling (Bertsekas and
/// Gallager, Data Networks, 6.5.2): all levels (rate ÷ weight) rise together, and a flow stops where its
/// first link is full.
std::vector<double> max_min_rates(std::span<const LinkCapacity> links, std::span<const FlowDemand> flows);

}  // namespace dtfm::sim
