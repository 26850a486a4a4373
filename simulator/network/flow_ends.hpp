// How far flows are, and which ends next.
//
// The flows that a link holds all move at its level (rate ÷ weight). So they are counted on a clock of the
// link that shows what a flow of weight 1 would have moved: each ends when the clock shows a number that
// stays what it is, however often the level changes (the virtual time of fair queueing: Demers, Keshav and
// Shenker, Analysis and simulation of a fair queueing algorithm, 1989). One link has one date in the heap,
// that of its next end; so has each flow that no link holds.
#pragma once

#include <limits>
#include <vector>

#include "simulator/engine/indexed_heap.hpp"

namespace dtfm::sim {

class FlowEnds {
 public:
  static constexpr int none = -1;
  struct End {
    double date;  // infinite if nothing ends
    int flow;
  };

  explicit FlowEnds(std::size_t links);
  /// One more link, behind the others.
  void add_link();

  /// A flow (a number of the caller's) of `amount` bytes that stands still.
  void start(int flow, double amount, double weight);
  void remove(int flow);
  /// From `now` on the flow moves at the level of the link, or at one of its own.
  void hold(int flow, int link, double now);
  void set_own_level(int flow, double level, double now);
  void set_level(int link, double level, double now);

  int holder(int flow) const { return flows_[at(flow)].link; }
  /// Of the flows that the link holds; it stays what it was while it holds none.
  double level_of_link(int link) const { return links_[at(link)].level; }
  double level(int flow) const {
    const Flow& it = flows_[at(flow)];
    return it.link == none ? it.level : links_[at(it.link)].level;
  }
  double weight(int flow) const { return flows_[at(flow)].weight; }
  /// When the last byte is through if no level changes any more; infinite while nothing moves.
  double end(int flow) const;
  double remaining(int flow, double now) const;
  End next() const;

 private:
  struct Flow {
    double weight, level;
    double left;  // as amount ÷ weight: at `updated`; of a flow that a link holds: what its clock shows at
                  // the end
    double updated;
    int link;
  };
  struct Link {
    double level = 0, clock = 0, updated = 0;  // the clock shows this at that date
    std::size_t holds_since_reset = 0;                // how many were since the clock was set back
    IndexedHeap flows;
  };

  /// In the heap of dates: even numbers are links, so that there can be more of both at any time.
  static int id_of_link(int link) { return 2 * link; }
  static int id_of_flow(int flow) { return 2 * flow + 1; }

  double left(const Flow& flow, double now) const;
  void detach_flow(int flow);
  void reset_clock(Link& link);
  void reschedule_link(int link);

  std::vector<Flow> flows_;
  std::vector<Link> links_;
  HeapPositions flow_positions_, date_positions_;
  IndexedHeap dates_;  // of links, and of flows that no link holds
};

}  // namespace dtfm::sim
