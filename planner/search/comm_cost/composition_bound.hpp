// A lower bound of COMM-COST by searching over what groups are made of instead of over devices.
#pragma once

#include <cstddef>
#include <functional>

#include "planner/cost/comm_cost/comm_cost.hpp"
#include "planner/search/comm_cost/device_classes.hpp"

namespace dtfm::search {

inline constexpr std::size_t max_search_bytes = 2'000'000'000;

struct CompositionBound {
  double value = 0;       // s: no placement costs less
  bool complete = false;  // the search ended: nothing below min(value, upper bound) exists
};

/// Every placement is a sequence of compositions: how many devices of each class a group holds. Best-first
/// search over these sequences, each pair of classes as fast as its fastest pair of devices, bounds all
/// placements from below; where the classes are of interchangeable devices, exactly. Only what is cheaper
/// than `upper_bound` (the cost of a known placement) is looked at: when nothing is left, that is the bound.
/// Stops when `max_effort` continuations have been priced, or as much work done on fewer, or when the search
/// holds more than `max_bytes`, or `stop` says so, with the bound reached by then: 0 where that is before all
/// first groups are priced.
CompositionBound composition_bound(const cost::CommCostModel& model, const DeviceClasses& classes,
                                   double upper_bound, long long max_effort,
                                   const std::function<bool()>& stop,
                                   std::size_t max_bytes = max_search_bytes);

/// Compositions of groups of `replicas` devices of `classes` classes: C(replicas + classes − 1, replicas), or
/// a number above `limit`.
long long count_compositions(int replicas, int classes, long long limit);

}  // namespace dtfm::search
