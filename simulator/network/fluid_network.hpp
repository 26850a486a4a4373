// Keeps the max-min fair rates (max_min.hpp) of flows in a network of links up to date, incrementally, while
// flows arrive and leave and capacities change.
//
// All changes of one instant are processed together, and only where they have an effect. Two facts limit the
// affected part. First, if L is the lowest level (rate ÷ weight) that a change can affect, nothing below L
// changes, because progressive filling passes through the same states up to L. Second, a link influences
// others only if it is full. So a few flows are unfrozen and filled again while all others stay frozen. If
// this leaves the frozen flows of a link inconsistent, they are unfrozen as well, and so on, until the
// definition of fairness holds everywhere.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/base/stop.hpp"
#include "simulator/network/flow_ends.hpp"
#include "simulator/network/link_use_pool.hpp"
#include "simulator/network/max_min.hpp"

namespace dtfm::sim {

class FluidNetwork {
 public:
  /// `stop`, unless null, must outlive this. Once it has returned true, updates of the rates of many flows
  /// throw WorkStopped, and so does this constructor. Then only the destructor may be called.
  explicit FluidNetwork(std::span<const LinkCapacity> links, const StopFunction* stop = nullptr);

  /// Adds a link and returns its number; links are numbered consecutively from 0.
  int add_link(const LinkCapacity& link);

  /// Adds a flow of `amount` bytes, which gets a rate at the next `update_rates`, and returns its number.
  /// Numbers are reused after `remove`. `weight` and all shares are positive; `rate_cap` (bytes per second)
  /// may be infinite. `own_links`: links that no other flow uses, and that therefore are not among `uses`,
  /// but part of the rate cap. Flows get the same ids as if they were uses, so that ties break equally.
  int add(std::span<const LinkUse> uses, double amount, double weight, double rate_cap, int own_links = 0);
  void remove(int flow);
  void set_capacity(int link, double capacity);

  /// Recomputes all rates after the changes made at time `now`, which never decreases between calls.
  void update_rates(double now);

  /// Whether any flow passes the link.
  bool is_used(int link) const { return !slots_[index(link)].empty(); }
  double rate(int flow) const { return ends_.weight(flow) * ends_.level(flow); }
  const FlowEnds& ends() const { return ends_; }

 private:
  static constexpr int none = -1;
  enum class FillState : std::uint8_t { frozen, rising, stopped };
  struct Use {
    int link;
    int slot;     // position of this use among the slots of its link
    double load;  // bytes per second on the link at level 1
  };
  struct Slot {
    int flow;
    int use;  // position of this slot's use in the pool
    double load;
  };
  struct Flow {
    double weight, next_level;
    double demand;     // the level at which its links reserve capacity: its level, or more if it is loose
    double rate_cap;   // bytes per second
    double level_cap;  // the lowest limit of this flow alone (rate cap, fat pipes), as a level
    LinkUsePool<Use>::UseRange pool_entry;
    int bottleneck;  // the link that limits its level, or none
    int next_bottleneck;
    bool up_to_date;
    bool loose;  // its bottleneck is independent (fluid_network_incremental.cpp)
  };
  struct Link {
    double capacity;
    double total_demand, load;  // bytes per second of all flows: at their demands, and at level 1
    double level;               // of the flows whose bottleneck is this link; infinite if there are none
    int held;                   // number of flows whose bottleneck is this link
    int loose;                  // number of loose flows whose bottleneck is another link
    int removed_since_sum;      // flows removed since `load` and `total_demand` were summed from scratch
    bool fatpipe, touched, open;
    bool independent;
    // Of an independent link:
    double min_demand;            // the lowest demand of the flows whose bottleneck it is
    std::vector<int> dependents;  // other full links that these flows cross
    // During an update: bytes per second of frozen flows, then the state of the unfrozen (rising) ones.
    double frozen, rising_load, left, left_load, next_level;
    int rising, left_rising, held_rising;
  };
  struct Candidate {
    double level;
    int id;  // a link, or ~flow for the level cap of a flow
  };

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  std::span<Use> uses(const Flow& flow) { return uses_.get(flow.pool_entry); }
  int new_flow(std::size_t room);
  void attach(int flow, const LinkUse& use, Use& pool_entry);
  void detach(const Flow& flow, const Use& use);
  void set_level_cap(Flow& flow);
  void change_rate_cap(int flow);
  void push_if_full(int link);
  void affected_from(double level);

  // The functions up to `recompute_sums` are in fluid_network_incremental.cpp.

  /// Splits the flows on a link into those with another bottleneck and the rest, which are this link's own or
  /// new. The sums are incomplete if `unsettled` is above 1.
  struct LoadSplit {
    double passing = 0, max_level = 0;  // flows with another bottleneck: bytes per second, highest level
    double load = 0;                    // of the rest, at level 1
    int unsettled = 0;                  // number of new flows among the rest
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
  bool demand(Flow& flow, double level, double max_demand);
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

  /// Called in the long loops of an update.
  void check_stop(std::size_t step) const {
    if (stop_ != nullptr) throw_if_stopped(*stop_, step);
  }

  const StopFunction* stop_;
  FlowEnds ends_;
  std::vector<Flow> flows_;
  std::vector<FillState> fill_states_;
  LinkUsePool<Use> uses_;
  std::vector<Link> links_;
  std::vector<std::vector<Slot>> slots_;  // [link]

  std::vector<int> restarted_, changed_links_;  // since the last update of rates
  double affected_from_ = std::numeric_limits<double>::infinity();
  std::vector<int> unfrozen_, touched_;
  std::vector<Candidate> heap_;
  std::size_t stopped_ = 0;
};

}  // namespace dtfm::sim
