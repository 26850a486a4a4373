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

#include "simulator/network/flow_ends.hpp"
#include "simulator/network/link_use_pool.hpp"
#include "simulator/network/max_min.hpp"

namespace dtfm::sim {

class LevelNetwork {
 public:
  LevelNetwork() : ends_(0) {}

  /// Adds a link of `capacity` bytes per second, shared by its flows, and returns its number; links are
  /// numbered consecutively from 0.
  int add_link(double capacity);

  /// Adds a flow of `amount` bytes, which gets a rate at the next `update_rates`, and returns its number.
  /// Numbers are reused after `remove`. `weight` and all shares are positive; `rate_cap` (bytes per second)
  /// may be infinite.
  int add(std::span<const LinkUse> uses, double amount, double weight, double rate_cap);
  void remove(int flow);
  void set_capacity(int link, double capacity);

  /// Recomputes all rates after the changes made at time `now`, which never decreases between calls.
  void update_rates(double now);

  double rate(int flow) const { return ends_.weight(flow) * ends_.level(flow); }
  /// The number of link updates so far, which measures the cost of `update_rates`.
  long long update_count() const { return update_count_; }
  const FlowEnds& ends() const { return ends_; }

 private:
  static constexpr int none = -1;
  struct Use {
    int link;
    int slot;  // position of this use among the slots of its link
  };
  struct Slot {
    int flow;
    int use;      // position of this slot's use in the pool
    double load;  // bytes per second on the link at level 1
  };
  struct Flow {
    double rate_cap;  // as a level
    LinkUsePool<Use>::UseRange pool_entry;
    bool up_to_date;
  };
  struct Link {
    double capacity;
    double level;  // of the flows whose bottleneck it is; infinite while it is not full
    bool queued, changed;
  };
  /// The level that a flow could have without the link that is being updated.
  struct Limit {
    double level, load;
  };

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  std::span<Use> uses(const Flow& flow) { return uses_.get(flow.pool_entry); }
  std::span<const Use> uses(const Flow& flow) const { return uses_.get(flow.pool_entry); }
  int new_flow(std::size_t use_count);
  void detach(const Use& use);
  void queue(int link);
  void update_link(int link);
  void notify_neighbours(int link, double before);
  bool can_fill(int link, double level) const;
  double level_of(int link);
  double limit_by_other_links(const Flow& flow, int link) const;
  void commit_link(int link, double now);
  void commit_flow(int flow, double now);

  FlowEnds ends_;
  std::vector<Flow> flows_;
  LinkUsePool<Use> uses_;
  std::vector<Link> links_;
  std::vector<std::vector<Slot>> slots_;  // [link]

  std::vector<int> added_;    // flows added since the last update of rates
  std::vector<int> queue_;    // links to update
  std::vector<int> changed_;  // links whose level differs from that of the last update of rates
  std::vector<Limit> limits_;
  long long update_count_ = 0;
};

}  // namespace dtfm::sim
