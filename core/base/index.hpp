// Conversion between int, by which devices, stages and link classes are numbered, and std::size_t, by which
// containers are indexed.
#pragma once

#include <cstddef>

namespace dtfm {

/// Converts a non-negative number to an index or a size: `values[at(device)]`.
constexpr std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

/// Marks the absence of a device, task or the like.
inline constexpr int no_index = -1;

}  // namespace dtfm
