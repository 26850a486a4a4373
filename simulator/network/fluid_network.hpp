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
#include "simulator/network/use_pool.hpp"

namespace dtfm::sim {

class FluidNetwork {
 public:
  explicit FluidNetwork(std::span<const LinkCapacity> links);

  /// One more link, and its number: that of the last before it plus 1.
  int add_link(const LinkCapacity& link);

  /// A flow of `amount` bytes that moves from the next `settle` on, and its number, which is reused after
  /// `remove`. Weight and shares above 0; a ceiling may be infinite.
  int add(std::span<const LinkUse> uses, double amount, double weight, double ceiling);
  void remove(int flow);
  void set_capacity(int link, double capacity);

  /// Brings all rates up to date after the changes made at `now` (which never goes back).
  void settle(double now);

  /// Whether any flow passes the link.
  bool is_used(int link) const { return !slots_[index(link)].empty(); }
  double rate(int flow) const { return ends_.weight(flow) * ends_.level(flow); }
  /// Who ends when.
  const FlowEnds& ends() const { return ends_; }

 private:
  enum class Mark : std::uint8_t { standing, rising, stopped };
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
    double claim;  // the level at which its links count it: its own, or above it if it is loose
    double ceiling, ceiling_level;  // its own, in bytes per second; of all limits to it alone, as a level
    UsePool<Use>::Place place;
    int bottleneck;  // the link that holds it at its level, or none
    int next_bottleneck;
    bool settled;
    bool loose;  // its bottleneck is independent
  };
  struct Link {
    double capacity;
    double claimed, load;  // by all flows: at their claims, and at level 1
    double level;          // of the flows that this link holds; infinite when it holds none
    int held;              // how many those are
    int loose;             // how many flows that others hold
    int left_since;        // how many flows since the sums over all were made anew
    bool fatpipe, touched, open;
    bool independent;
    // Of an independent link:
    double roof;                  // the least claim of the flows that it holds
    std::vector<int> dependents;  // full links which they pass
    // While settling: what does not move, and the flows that do.
    double standing, rising_load, left, left_load, next_level;
    int rising, left_rising, held_rising;
  };
  struct Candidate {
    double level;
    int id;  // a link, or ~flow for the flow's ceiling
  };

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  std::span<Use> uses(const Flow& flow) { return uses_.of(flow.place); }
  int new_flow(std::size_t use_count);
  void attach(int flow, const LinkUse& use, Use& place);
  void detach(const Flow& flow, const Use& use);
  void set_ceiling_level(Flow& flow);
  void change_ceiling(int flow);
  void push_if_full(int link);
  void felt_from(double level);

  // fluid_network_steps.cpp
  /// The flows on a link that others hold, and the others; not all of them if more than one is new.
  struct Division {
    double passing = 0, most = 0;  // of the capacity, used by those; their highest level
    double load = 0;               // of the others
    int unsettled = 0;             // how many of the others are new
  };
  void settle_independent(double now);
  void shift_all(double now);
  bool is_new(const Slot& slot, int link) const;
  Division division(int link) const;
  void move(int link, double level, double now);
  void push_changed(int link);
  void add_dependent(int link, int dependent);
  void add_to_holders(int link);
  bool join(int flow, double now);
  bool shift(int link, double now);
  bool make_independent(int link, double level);
  bool claim(Flow& flow, double level, double most);
  void loosen(Flow& flow);
  void tighten(Flow& flow, double level);
  void bind(int link);
  void bind_holders(int link);
  void set_claim(Flow& flow, double claim);
  void add_up(int link);

  double level(const Flow& flow) const {
    return flow.loose ? links_[index(flow.bottleneck)].level : flow.claim;
  }
  void begin();
  void touch(int link);
  void free_flow(int flow);
  void open(int link);
  void fill();
  void stop(int flow, double level, int bottleneck);
  void stop_all_on(int link, double level);
  bool stands_wrongly(int link) const;
  bool open_wrong_links(bool all);
  void commit(double now);
  void commit_flow(int flow, double now);
  void commit_link(int link, double now);

  FlowEnds ends_;
  std::vector<Flow> flows_;
  std::vector<Mark> marks_;
  UsePool<Use> uses_;
  std::vector<Link> links_;
  std::vector<std::vector<Slot>> slots_;  // of each link

  std::vector<int> restarted_, changed_links_;  // since the last settling
  double felt_from_ = std::numeric_limits<double>::infinity();
  std::vector<int> free_, touched_;
  std::vector<Candidate> heap_;
  std::size_t stopped_ = 0;
};

}  // namespace dtfm::sim
