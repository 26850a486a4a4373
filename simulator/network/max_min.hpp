// Weighted max-min fair rates of flows on shared links, computed directly from the definition. This slow
// reference implementation is what the incremental fluid_network is tested against.
#pragma once

#include <limits>
#include <span>
#include <vector>

namespace dtfm::sim {

enum class Sharing {
  shared,   // the capacity limits the sum of all flows
  fatpipe,  // the capacity limits each flow separately
};

struct LinkCapacity {
  double capacity = 0;  // bytes per second; 0 stops all flows
  Sharing sharing = Sharing::shared;
};

/// A flow uses `share` × its rate of the link's capacity. Shares add up where a flow lists a link repeatedly.
struct LinkUse {
  int link = 0;
  double share = 1;
};

struct FlowDemand {
  std::vector<LinkUse> uses;
  double weight = 1;  // above 0; flows with the same bottleneck get rates in proportion to their weights
  double rate_cap = std::numeric_limits<double>::infinity();  // bytes per second
};

/// Returns the rate of every flow in bytes per second. No link exceeds its capacity, and each flow either has
/// reached its rate cap or crosses a full link on which no flow has a larger rate ÷ weight. Computed by
/// progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2): all levels (rate ÷ weight) rise
/// together, and a flow stops when the first of its links is full.
std::vector<double> max_min_rates(std::span<const LinkCapacity> links, std::span<const FlowDemand> flows);

}  // namespace dtfm::sim
