// Room for what flows say of the links that they use, reused with the numbers of flows that are gone.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace dtfm::sim {

template <class Use>
class UsePool {
 public:
  /// The uses of one flow, next to each other in the pool.
  struct Place {
    int first = 0, count = 0;
  };

  /// The number of a flow that is gone, whose place has room for so many uses and no more; −1: there is none.
  int take_number(std::size_t count) {
    if (unused_.size() <= count || unused_[count].empty()) return -1;
    const int flow = unused_[count].back();
    unused_[count].pop_back();
    return flow;
  }
  void give_back(int flow, const Place& place) {
    const auto count = static_cast<std::size_t>(place.count);
    if (unused_.size() <= count) unused_.resize(count + 1);
    unused_[count].push_back(flow);
  }

  Place add(std::size_t count) {
    const Place place{static_cast<int>(uses_.size()), static_cast<int>(count)};
    uses_.resize(uses_.size() + count);
    return place;
  }

  std::span<Use> of(const Place& place) {
    return {uses_.data() + place.first, static_cast<std::size_t>(place.count)};
  }
  std::span<const Use> of(const Place& place) const {
    return {uses_.data() + place.first, static_cast<std::size_t>(place.count)};
  }
  /// By its number in the pool.
  Use& operator[](int use) { return uses_[static_cast<std::size_t>(use)]; }

 private:
  std::vector<Use> uses_;
  std::vector<std::vector<int>> unused_;  // numbers of flows, by how many uses they have
};

}  // namespace dtfm::sim
