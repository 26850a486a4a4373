// Sorting that can be stopped.
#pragma once

#include <algorithm>
#include <cstddef>

#include "core/base/stop.hpp"

namespace dtfm {

/// The same as std::stable_sort. Throws WorkStopped, which leaves the values in any order, some of them moved
/// from.
template <class Iterator, class Less>
void stable_sort_unless_stopped(Iterator begin, Iterator end, const StopFunction& stop, const Less& less) {
  std::size_t comparisons = 0;
  std::stable_sort(begin, end, [&](const auto& a, const auto& b) {
    throw_if_stopped(stop, comparisons++);
    return less(a, b);
  });
}

}  // namespace dtfm
