// Flows that arrive at, leave and share a network of links, always at their max-min fair rates (max_min.hpp),
// kept up to date step by step.
//
// All changes of one instant are settled together, and only where they are felt. Two facts bound that. With L
// the lowest level (rate ÷ weight) at which a change can be felt, nothing below L changes: progressive
// filling passes through the same states up to there. And a link matters to others only if it is full. So a
// few flows are freed and filled anew among all others, which stand still; where a link that stood still
// should not have, its flows are freed too, and so on until the definition of fairness holds everywhere.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "simulator/network/flow_ends.hpp"
#include "simulator/network/max_min.hpp"
#include "simulator/network/link_use_pool.hpp"

namespace dtfm::sim {

class FluidNetwork {
 public:
  explicit FluidNetwork(std::span<const LinkCapacity> links);

  /// One more link, and its number: that of the last before it plus 1.
  int add_link(const LinkCapacity& link);

  /// A flow of `amount` bytes that moves from the next `settle` on, and its number, which is reused after
  /// `remove`. Weight and shares above 0; a ceiling may be infinite.
  int add(std::span<const LinkUse> uses, double amount, double weight, double rate_cap);
  void remove(int flow);
  void set_capacity(int link, double capacity);

  /// Brings all rates up to date after the changes made at `now` (which never goes back).
  void update_rates(double now);

  /// Whether any flow passes the link.
  bool is_used(int link) const { return !slots_[index(link)].empty(); }
  double rate(int flow) const { return ends_.weight(flow) * ends_.level(flow); }
  /// Who ends when.
  const FlowEnds& ends() const { return ends_; }

 private:
  enum class FillState : std::uint8_t { frozen, rising, stopped };
  struct Use {
    int link;
    int slot;     // of this use in its link
    double load;  // on the link, at level 1
  };
  struct Slot {
    int flow;
    int use;  // of this slot in the pool of uses
    double load;
  };
  struct Flow {
    double weight, next_level;
    double demand;  // the level at which its links count it: its own, or above it if it is loose
    double rate_cap, level_cap;  // its own, in bytes per second; of all limits to it alone, as a level
    LinkUsePool<Use>::UseRange pool_entry;
    int bottleneck;  // the link that holds it at its level, or none
    int next_bottleneck;
    bool up_to_date;
    bool loose;  // its bottleneck is independent
  };
  struct Link {
    double capacity;
    double total_demand, load;  // by all flows: at their claims, and at level 1
    double level;          // of the flows that this link holds; infinite when it holds none
    int held;              // how many those are
    int loose;             // how many flows that others hold
    int removed_since_sum;        // how many flows since the sums over all were made anew
    bool fatpipe, touched, open;
    bool independent;
    // Of an independent link:
    double min_demand;                  // the least claim of the flows that it holds
    std::vector<int> dependents;  // full links which they pass
    // While settling: what does not move, and the flows that do.
    double frozen, rising_load, left, left_load, next_level;
    int rising, left_rising, held_rising;
  };
  struct Candidate {
    double level;
    int id;  // a link, or ~flow for the flow's ceiling
  };

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  std::span<Use> uses(const Flow& flow) { return uses_.get(flow.pool_entry); }
  int new_flow(std::size_t use_count);
  void attach(int flow, const LinkUse& use, Use& pool_entry);
  void detach(const Flow& flow, const Use& use);
  void set_level_cap(Flow& flow);
  void change_rate_cap(int flow);
  void push_if_full(int link);
  void affected_from(double level);

  // fluid_network_steps.cpp
  /// The flows on a link that others hold, and the others; not all of them if more than one is new.
  struct LoadSplit {
    double passing = 0, most = 0;  // of the capacity, used by those; their highest level
    double load = 0;               // of the others
    int unsettled = 0;             // how many of the others are new
  };
  void update_independent(double now);
  void adjust_all(double now);
  bool is_new(const Slot& slot, int link) const;
  LoadSplit load_split(int link) const;
  void set_link_level(int link, double level, double now);
  void push_changed(int link);
  void add_dependent(int link, int dependent);
  void add_to_holders(int link);
  bool join_bottleneck(int flow, double now);
  bool adjust_level(int link, double now);
  bool make_independent(int link, double level);
  bool demand(Flow& flow, double level, double most);
  void loosen(Flow& flow);
  void tighten(Flow& flow, double level);
  void make_dependent(int link);
  void make_holders_dependent(int link);
  void set_demand(Flow& flow, double demand);
  void recompute_sums(int link);

  double level(const Flow& flow) const {
    return flow.loose ? links_[index(flow.bottleneck)].level : flow.demand;
  }
  void begin();
  void touch(int link);
  void unfreeze_flow(int flow);
  void open(int link);
  void fill();
  void stop(int flow, double level, int bottleneck);
  void stop_all_on(int link, double level);
  bool is_inconsistent(int link) const;
  bool open_inconsistent_links(bool all);
  void commit(double now);
  void commit_flow(int flow, double now);
  void commit_link(int link, double now);

  FlowEnds ends_;
  std::vector<Flow> flows_;
  std::vector<FillState> fill_states_;
  LinkUsePool<Use> uses_;
  std::vector<Link> links_;
  std::vector<std::vector<Slot>> slots_;  // of each link

  std::vector<int> restarted_, changed_links_;  // since the last settling
  double affected_from_ = std::numeric_limits<double>::infinity();
  std::vector<int> unfrozen_, touched_;
  std::vector<Candidate> heap_;
  std::size_t stopped_ = 0;
};

}  // namespace dtfm::sim
