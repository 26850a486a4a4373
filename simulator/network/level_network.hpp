// What FluidNetwork does (fluid_network.hpp), where links have few flows but changes are felt far: messages
// between hundreds of peers, over an uplink and a downlink each.
//
// Every link has a level (rate ÷ weight): that at which it is full when each of its flows moves at this level
// or, if that is less, at what the flow's other links and its ceiling allow; infinite if it is not full then.
// Where this holds for all links, rates are max-min fair: no link is over its capacity, and on the link that
// holds a flow none is above it. There is one solution only: the lowest level is the least capacity ÷ load,
// whatever the others are; then the lowest of what is left, and so on. So links are looked at one by one, and
// again when a level that they depend on has changed, until none changes any more: each time that all have
// been looked at, one more of the lowest levels is there to stay.
//
// A look takes time with the number of the link's flows, whatever has changed. Where there are hundreds on
// one link, FluidNetwork is faster.
#pragma once

#include <span>
#include <vector>

#include "simulator/network/flow_ends.hpp"
#include "simulator/network/max_min.hpp"
#include "simulator/network/link_use_pool.hpp"

namespace dtfm::sim {

class LevelNetwork {
 public:
  LevelNetwork() : ends_(0) {}

  /// One more link, shared by all its flows, and its number: that of the last before it plus 1.
  int add_link(double capacity);

  /// A flow of `amount` bytes that moves from the next `settle` on, and its number, which is reused after
  /// `remove`. Weight and shares above 0; a ceiling may be infinite.
  int add(std::span<const LinkUse> uses, double amount, double weight, double rate_cap);
  void remove(int flow);
  void set_capacity(int link, double capacity);

  /// Brings all rates up to date after the changes made at `now` (which never goes back).
  void update_rates(double now);

  double rate(int flow) const { return ends_.weight(flow) * ends_.level(flow); }
  /// How often links were looked at so far: what settling costs.
  long long update_count() const { return update_count_; }
  /// Who ends when.
  const FlowEnds& ends() const { return ends_; }

 private:
  static constexpr int none = -1;
  struct Use {
    int link;
    int slot;  // of this use in its link
  };
  struct Slot {
    int flow;
    int use;      // of this slot in the pool of uses
    double load;  // at level 1
  };
  struct Flow {
    double rate_cap;  // as a level
    LinkUsePool<Use>::UseRange pool_entry;
    bool up_to_date;
  };
  struct Link {
    double capacity;
    double level;  // of the flows that it holds; infinite while it is not full
    bool queued, changed;
  };
  /// The level that a flow could have if the link that is looked at were not there.
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
  std::vector<std::vector<Slot>> slots_;  // of each link

  std::vector<int> added_;            // flows since the last settling
  std::vector<int> queue_, changed_;  // links: to be looked at; with another level than at the last settling
  std::vector<Limit> limits_;
  long long update_count_ = 0;
};

}  // namespace dtfm::sim
