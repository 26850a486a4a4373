// Devices, stages and ports are counted by int, containers by std::size_t.
#pragma once

#include <cstddef>

namespace dtfm {

/// A number that is not negative as an index or a size: `values[at(device)]`.
constexpr std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

/// The index of nothing: no device, no task.
inline constexpr int no_index = -1;

}  // namespace dtfm
