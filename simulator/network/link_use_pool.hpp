// Storage for the link uses of flows. The storage of a removed flow is reused together with its number.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace dtfm::sim {

template <class Use>
class LinkUsePool {
 public:
  /// The uses of one flow, which are contiguous in the pool.
  struct UseRange {
    int first = 0, count = 0;
  };

  /// The number of a removed flow whose storage has room for exactly `count` uses; −1 if there is none.
  int take_free_id(std::size_t count) {
    if (unused_.size() <= count || unused_[count].empty()) return -1;
    const int flow = unused_[count].back();
    unused_[count].pop_back();
    return flow;
  }
  void release(int flow, const UseRange& pool_entry) {
    const auto count = static_cast<std::size_t>(pool_entry.count);
    if (unused_.size() <= count) unused_.resize(count + 1);
    unused_[count].push_back(flow);
  }

  UseRange add(std::size_t count) {
    const UseRange pool_entry{static_cast<int>(uses_.size()), static_cast<int>(count)};
    uses_.resize(uses_.size() + count);
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
  std::vector<std::vector<int>> unused_;  // [number of uses]: numbers of removed flows
};

}  // namespace dtfm::sim
