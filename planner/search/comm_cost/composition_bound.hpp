// A lower bound on COMM-COST from a search over the compositions of groups instead of over devices.
#pragma once

#include <cstddef>

#include "core/base/stop.hpp"
#include "planner/cost/comm_cost/comm_cost.hpp"
#include "planner/search/comm_cost/device_classes.hpp"

namespace dtfm::search {

inline constexpr std::size_t max_search_bytes = 2'000'000'000;

struct CompositionBound {
  double value = 0;       // s: no placement costs less
  bool complete = false;  // the search completed: no placement costs less than min(value, upper bound)
};

/// Every placement is a sequence of compositions: the number of devices of each class in each group.
/// Best-first search over these sequences, in which a pair of classes is as fast as its fastest pair of
/// devices, bounds all placements from below; the bound is exact if the classes consist of interchangeable
/// devices. Only sequences cheaper than `upper_bound` (the cost of a known placement) are explored: when none
/// is left, that is the bound.
///
/// Stops after `max_effort` evaluated continuations, or the equivalent work on fewer, or when the search
/// holds more than `max_bytes`, or when `stop` returns true, and returns the bound reached so far. That is 0
/// if not all first groups have been evaluated.
CompositionBound composition_bound(const cost::CommCostModel& model, const DeviceClasses& classes,
                                   double upper_bound, long long max_effort, const StopFunction& stop,
                                   std::size_t max_bytes = max_search_bytes);

/// Number of compositions of groups of `replicas` devices from `classes` classes, C(replicas + classes − 1,
/// replicas), or a number above `limit` if it exceeds that.
long long count_compositions(int replicas, int classes, long long limit);

}  // namespace dtfm::search
