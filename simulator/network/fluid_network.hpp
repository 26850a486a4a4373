// Keeps the weighted max-min fair rates of flows in a network of links up to date, incrementally, while flows
// arrive and leave and capacities change. No link exceeds its capacity, and each flow either has reached its
// rate cap or crosses a full link on which no flow has a larger rate ÷ weight. All changes of one instant are
// processed together, and only where they have an effect: first those that change the level of single links
// (independent_links.hpp), then the rest by filling a part of the network again (partial_filling.hpp).
#pragma once

#include <span>

#include "core/base/stop.hpp"
#include "simulator/network/fluid_state.hpp"
#include "simulator/network/partial_filling.hpp"

namespace dtfm::sim {

class FluidNetwork {
 public:
  /// Links are numbered as in the list, from 0.
  explicit FluidNetwork(std::span<const LinkCapacity> links);
  FluidNetwork(const FluidNetwork&) = delete;

  /// Adds a flow of `amount` bytes, which gets a rate at the next `update_rates`, and returns its number.
  /// Numbers are reused after `remove`. `weight` and all shares are positive; `rate_cap` (bytes per second)
  /// may be infinite. `own_links`: links that no other flow uses, and that therefore are not among `uses`,
  /// but part of the rate cap. Flows get the same ids as if they were uses, so that ties break equally.
  int add(std::span<const LinkUse> uses, double amount, double weight, double rate_cap, int own_links = 0);
  void remove(int flow);
  void set_capacity(int link, double capacity);

  /// Recomputes all rates after the changes made at time `now`, which never decreases between calls. Throws
  /// WorkStopped if there are many and `stop` returns true; then only the destructor may be called.
  void update_rates(double now, const StopFunction& stop = {});

  /// Whether any flow passes the link.
  bool is_used(int link) const { return !state_.table.slots(link).empty(); }
  double rate(int flow) const { return state_.ends.weight(flow) * state_.ends.level(flow); }
  const FlowEnds& ends() const { return state_.ends; }

 private:
  FluidState state_;
  PartialFilling filling_;
};

}  // namespace dtfm::sim
