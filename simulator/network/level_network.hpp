// An alternative to FluidNetwork (fluid_network.hpp) for networks whose links carry few flows but where
// changes propagate far: messages between hundreds of peers, each with an uplink and a downlink.
//
// Every link has a level (rate ÷ weight): the level at which it is full if each of its flows has this level
// or, if lower, the level that the flow's other links and its rate cap allow. The level is infinite if the
// link is not full then. If this holds for all links, rates are max-min fair: no link exceeds its capacity,
// and no flow on the bottleneck of another flow has a higher level. The solution is unique: the lowest level
// is the smallest capacity ÷ load, whatever the others are, then the lowest of the rest, and so on. Links are
// therefore updated one by one, and again when a level that they depend on has changed, until nothing changes
// any more. Each pass over all links makes at least one more of the lowest levels final.
//
// Updating a link takes time proportional to its number of flows, whatever has changed. With hundreds of
// flows per link, FluidNetwork is faster.
#pragma once

#include <span>
#include <vector>

#include "core/base/infinity.hpp"
#include "simulator/network/flow_ends.hpp"
#include "simulator/network/flow_table.hpp"
#include "simulator/network/link_use.hpp"

namespace dtfm::sim {

class LevelNetwork {
 public:
  /// Adds a link of `capacity` bytes per second, shared by its flows, and returns its number; links are
  /// numbered consecutively from 0.
  int add_link(double capacity);

  /// Adds a flow of `amount` bytes, which gets a rate at the next `update_rates`, and returns its number.
  /// Numbers are reused after `remove`. `weight` and all shares are positive; `rate_cap` (bytes per second)
  /// may be infinite.
  int add(std::span<const LinkUse> uses, double amount, double weight, double rate_cap);
  void remove(int flow);

  /// Recomputes all rates after the changes made at time `now`, which never decreases between calls.
  void update_rates(double now);

  double rate(int flow) const { return ends_.weight(flow) * ends_.level(flow); }
  /// The number of link updates so far, which measures the cost of `update_rates`.
  long long update_count() const { return update_count_; }
  const FlowEnds& ends() const { return ends_; }

 private:
  struct Link {
    double capacity;
    double level;  // of the flows whose bottleneck it is; infinite while it is not full
    bool queued, changed;
  };
  /// The level that a flow could have without the link that is being updated.
  struct Limit {
    double level, load;
  };

  void queue(int link);
  void update_link(int link);
  void notify_neighbours(int link, double before);
  bool can_fill(int link, double level) const;
  double level_of(int link);
  double limit_by_other_links(int flow, int link) const;
  void commit_link(int link, double now);
  void commit_flow(int flow, double now);

  FlowEnds ends_;
  FlowTable table_;
  std::vector<double> rate_caps_;  // [flow]: as levels
  std::vector<Link> links_;

  std::vector<int> added_;    // flows added since the last update of rates
  std::vector<int> queue_;    // links to update
  std::vector<int> changed_;  // links whose level differs from that of the last update of rates
  std::vector<Limit> limits_;
  long long update_count_ = 0;
};

}  // namespace dtfm::sim
