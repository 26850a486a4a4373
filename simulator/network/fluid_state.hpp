// The flows and links of a fluid network, and what has changed since its rates were up to date. The level of
// a flow is its rate ÷ weight.
#pragma once

#include <algorithm>
#include <vector>

#include "core/base/infinity.hpp"
#include "simulator/network/flow_ends.hpp"
#include "simulator/network/flow_table.hpp"
#include "simulator/network/tolerance.hpp"

namespace dtfm::sim {

struct FluidFlow {
  double rate_cap = 0;   // bytes per second
  double level_cap = 0;  // the lowest limit of this flow alone (rate cap, fat pipes), as a level
  double demand = 0;     // the level at which its links reserve capacity: its level, or more if it is loose
  int bottleneck = no_index;  // the link that limits its level
  bool up_to_date = false;
  bool loose = false;  // its bottleneck is independent (independent_links.hpp)
};

struct FluidLink {
  double capacity = 0;
  double total_demand = 0, load = 0;  // bytes per second of all flows: at their demands, and at level 1
  double level = infinity;    // of the flows whose bottleneck is this link; infinite if there are none
  int held = 0;               // number of flows whose bottleneck is this link
  int loose = 0;              // number of loose flows whose bottleneck is another link
  int removed_since_sum = 0;  // flows removed since `load` and `total_demand` were summed from scratch
  bool fatpipe = false, independent = false;
  // Of an independent link:
  double min_demand = 0;        // the lowest demand of the flows whose bottleneck it is
  std::vector<int> dependents;  // other full links that these flows cross
};

struct FluidState {
  using Use = FlowTable::Use;
  using Slot = FlowTable::Slot;

  FlowTable table;
  FlowEnds ends;
  std::vector<FluidFlow> flows;
  std::vector<FluidLink> links;
  std::vector<int> restarted, changed_links;  // since the last update of rates
  double affected_from = infinity;            // the lowest level that these changes can affect

  FluidFlow& flow(int number) { return flows[at(number)]; }
  const FluidFlow& flow(int number) const { return flows[at(number)]; }
  FluidLink& link(int number) { return links[at(number)]; }
  const FluidLink& link(int number) const { return links[at(number)]; }
  double level(int number) const {
    const FluidFlow& it = flow(number);
    return it.loose ? link(it.bottleneck).level : it.demand;
  }

  bool has_changes() const { return !restarted.empty() || !changed_links.empty(); }
  void lower_affected_from(double level) {
    affected_from = std::min(affected_from, level * (1 - frozen_tolerance));
  }
  void push_changed(int number) {
    lower_affected_from(link(number).level);
    lower_affected_from(link(number).capacity / link(number).load);
    changed_links.push_back(number);
  }
  /// A full link passes the change of a flow on to other flows.
  void push_if_full(int number) {
    if (link(number).level < infinity) changed_links.push_back(number);
  }

  void set_demand(int number, double level) {
    FluidFlow& it = flow(number);
    for (const Use& use : table.uses(number)) link(use.link).total_demand += use.load * (level - it.demand);
    it.demand = level;
  }
  void set_loose(int number, bool loose) {
    FluidFlow& it = flow(number);
    if (it.loose == loose) return;
    it.loose = loose;
    for (const Use& use : table.uses(number))
      if (use.link != it.bottleneck) link(use.link).loose += loose ? 1 : -1;
  }
  /// Makes the flow's demand its level.
  void tighten(int number, double level) {
    set_loose(number, false);
    set_demand(number, level);
  }
};

}  // namespace dtfm::sim
