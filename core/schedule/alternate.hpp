// The order of operations that 1f1b and interleaved share.
#pragma once

#include <algorithm>
#include <vector>

#include "core/schedule/schedule.hpp"

namespace dtfm {

/// Returns `warm_up` forwards, then one forward and one backward in turn, then the remaining backwards.
/// `forward(i)` and `backward(i)` return the i-th of `count` operations each.
template <class Forward, class Backward>
std::vector<Operation> alternate(int count, int warm_up, const Forward& forward, const Backward& backward) {
  std::vector<Operation> order;
  const int ahead = std::min(warm_up, count);
  for (int i = 0; i < ahead; ++i) order.push_back(forward(i));
  for (int i = ahead; i < count; ++i) {
    order.push_back(forward(i));
    order.push_back(backward(i - ahead));
  }
  for (int i = count - ahead; i < count; ++i) order.push_back(backward(i));
  return order;
}

}  // namespace dtfm
