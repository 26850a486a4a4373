// Sorting that can be stopped.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <vector>

#include "core/base/stop.hpp"

namespace dtfm {

/// The same as std::stable_sort, by merging sorted runs. Throws WorkStopped, which leaves the values in any
/// order, some of them moved from.
template <class Iterator, class Less>
void stable_sort_unless_stopped(Iterator begin, Iterator end, const StopFunction& stop, const Less& less) {
  using Value = typename std::iterator_traits<Iterator>::value_type;
  constexpr std::ptrdiff_t run = 1 << 16;  // sorted within some milliseconds
  const std::ptrdiff_t count = end - begin;
  if (count <= run || !stop) return std::stable_sort(begin, end, less);
  for (std::ptrdiff_t first = 0; first < count; first += run) {
    throw_if_stopped(stop);
    std::stable_sort(begin + first, begin + std::min(first + run, count), less);
  }
  std::vector<Value> merged(static_cast<std::size_t>(count));
  for (std::ptrdiff_t width = run; width < count; width *= 2) {
    for (std::ptrdiff_t first = 0; first < count; first += 2 * width) {
      throw_if_stopped(stop);
      const std::ptrdiff_t middle = std::min(first + width, count), last = std::min(first + 2 * width, count);
      std::merge(std::make_move_iterator(begin + first), std::make_move_iterator(begin + middle),
                 std::make_move_iterator(begin + middle), std::make_move_iterator(begin + last),
                 merged.begin() + first, less);
    }
    std::move(merged.begin(), merged.end(), begin);
  }
}

}  // namespace dtfm
