// Storage for the link uses of flows. The storage of a removed flow is reused together with its number.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace dtfm::sim {

template <class Use>
class LinkUsePool {
 public:
  /// The uses of one flow, which are contiguous in the pool, where it has room for `room` of them.
  struct UseRange {
    int first = 0, count = 0, room = 0;
  };

  /// The number of a removed flow whose storage has room for exactly `room` uses; −1 if there is none.
  int take_free_id(std::size_t room) {
    if (unused_.size() <= room || unused_[room].empty()) return -1;
    const int flow = unused_[room].back();
    unused_[room].pop_back();
    return flow;
  }
  void release(int flow, const UseRange& pool_entry) {
    const auto room = static_cast<std::size_t>(pool_entry.room);
    if (unused_.size() <= room) unused_.resize(room + 1);
    unused_[room].push_back(flow);
  }

  UseRange add(std::size_t room) {
    const UseRange pool_entry{static_cast<int>(uses_.size()), static_cast<int>(room), static_cast<int>(room)};
    uses_.resize(uses_.size() + room);
    return pool_entry;
  }

  std::span<Use> get(const UseRange& pool_entry) {
    return {uses_.data() + pool_entry.first, static_cast<std::size_t>(pool_entry.count)};
  }
  std::span<const Use> get(const UseRange& pool_entry) const {
    return {uses_.data() + pool_entry.first, static_cast<std::size_t>(pool_entry.count)};
  }
  Use& operator[](int use) { return uses_[static_cast<std::size_t>(use)]; }

 private:
  std::vector<Use> uses_;
  std::vector<std::vector<int>> unused_;  // [room]: numbers of removed flows
};

}  // namespace dtfm::sim
