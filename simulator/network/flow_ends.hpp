// Tracks the progress of flows and determines which flow finishes next.
//
// All flows whose bottleneck is the same link progress at the level of that link (level = rate ÷ weight). The
// link therefore keeps a virtual clock that counts the bytes a flow of weight 1 would have transferred. Each
// flow finishes at a fixed reading of that clock, however often the level changes (the virtual time of fair
// queueing: Demers, Keshav and Shenker, Analysis and simulation of a fair queueing algorithm, 1989). The heap
// of finish times holds one entry per link, that of its next finish, and one per flow without a bottleneck.
#pragma once

#include <limits>
#include <vector>

#include "simulator/engine/indexed_heap.hpp"

namespace dtfm::sim {

class FlowEnds {
 public:
  static constexpr int none = -1;
  struct End {
    double date;  // s; infinite if no flow is going to end
    int flow;
  };

  /// Appends a link.
  void add_link();

  /// Adds a flow of `amount` bytes, which has rate 0 at first. The caller chooses its number.
  void start(int flow, double amount, double weight);
  void remove(int flow);
  /// From `now` on, `link` is the bottleneck of the flow and determines its level.
  void hold(int flow, int link, double now);
  /// From `now` on, the flow has no bottleneck link and progresses at `level`.
  void set_own_level(int flow, double level, double now);
  void set_level(int link, double level, double now);

  int holder(int flow) const { return flows_[at(flow)].link; }
  /// The level of the flows whose bottleneck is the link. A link without such flows keeps its last level.
  double level_of_link(int link) const { return links_[at(link)].level; }
  double level(int flow) const {
    const Flow& it = flows_[at(flow)];
    return it.link == none ? it.level : links_[at(it.link)].level;
  }
  double weight(int flow) const { return flows_[at(flow)].weight; }
  /// The time of the flow's last byte if no level changes any more; infinite if its level is 0.
  double end(int flow) const;
  double remaining(int flow, double now) const;
  End next() const;

 private:
  struct Flow {
    double weight, level;
    double left;  // without a bottleneck: remaining bytes ÷ weight at `updated`; with one: the reading of the
                  // link's clock at which the flow ends
    double updated;
    int link;
  };
  struct Link {
    double level = 0, clock = 0, updated = 0;  // `clock` is the reading at time `updated`
    std::size_t holds_since_reset = 0;         // number of calls of `hold` since the clock was reset
    IndexedHeap flows;
  };

  /// In the heap of finish times, links have even ids and flows odd ones, so that both can grow at any time.
  static int id_of_link(int link) { return 2 * link; }
  static int id_of_flow(int flow) { return 2 * flow + 1; }

  double left(const Flow& flow, double now) const;
  void detach_flow(int flow);
  void reset_clock(Link& link);
  void reschedule_link(int link);

  std::vector<Flow> flows_;
  std::vector<Link> links_;
  HeapPositions flow_positions_, date_positions_;
  IndexedHeap dates_;  // finish times of links, and of flows without a bottleneck
};

}  // namespace dtfm::sim
