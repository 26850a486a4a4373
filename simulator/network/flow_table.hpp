// Which flows cross which links: the uses of every flow, and the slots of every link.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/base/index.hpp"
#include "simulator/network/link_use.hpp"

namespace dtfm::sim {

class FlowTable {
 public:
  struct Use {
    int link;
    int slot;     // position of this use among the slots of its link
    double load;  // bytes per second on the link at level (rate ÷ weight) 1
  };
  struct Slot {
    int flow;
    int use;  // position of this slot's use among all uses
    double load;
  };

  void add_link() { slots_.emplace_back(); }
  /// Adds a flow behind the others on its links and returns its number. Numbers are reused, but only by flows
  /// with equally many links, those in `uses` and `own_links` others.
  int add(std::span<const LinkUse> uses, double weight, int own_links = 0) {
    const int flow = new_flow(uses.size() + at(own_links));
    ranges_[at(flow)].count = static_cast<int>(uses.size());
    int number = ranges_[at(flow)].first;
    for (const auto& [link, share] : uses) {
      std::vector<Slot>& slots = slots_[at(link)];
      uses_[at(number)] = {link, static_cast<int>(slots.size()), share * weight};
      slots.push_back({flow, number++, share * weight});
    }
    return flow;
  }
  /// Takes a flow off one of its links; another flow gets its slot.
  void detach(const Use& use) {
    std::vector<Slot>& slots = slots_[at(use.link)];
    slots[at(use.slot)] = slots.back();
    uses_[at(slots[at(use.slot)].use)].slot = use.slot;
    slots.pop_back();
  }
  /// Frees the number of a flow that is detached from all its links.
  void release(int flow) { unused_[at(ranges_[at(flow)].room)].push_back(flow); }

  std::span<const Use> uses(int flow) const {
    return {uses_.data() + ranges_[at(flow)].first, at(ranges_[at(flow)].count)};
  }
  const std::vector<Slot>& slots(int link) const { return slots_[at(link)]; }

 private:
  /// The uses of a flow are contiguous, and have room for `room` of them.
  struct Range {
    int first, count, room;
  };

  int new_flow(std::size_t room) {
    if (unused_.size() <= room) unused_.resize(room + 1);
    if (!unused_[room].empty()) {
      const int flow = unused_[room].back();
      unused_[room].pop_back();
      return flow;
    }
    ranges_.push_back({static_cast<int>(uses_.size()), 0, static_cast<int>(room)});
    uses_.resize(uses_.size() + room);
    return static_cast<int>(ranges_.size()) - 1;
  }

  std::vector<Range> ranges_;             // [flow]
  std::vector<Use> uses_;                 // of all flows
  std::vector<std::vector<Slot>> slots_;  // [link]
  std::vector<std::vector<int>> unused_;  // [room]: numbers of removed flows
};

}  // namespace dtfm::sim
