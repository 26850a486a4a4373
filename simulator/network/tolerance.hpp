#pragma once

namespace dtfm::sim {

/// Levels that differ by less than this share count as equal, so that rounding errors cannot cause endless
/// updates. It is far above rounding errors and far below any difference that matters.
inline constexpr double relative_tolerance = 1e-12;

/// Flows that keep their level during an update of others are allowed this difference: far above
/// `relative_tolerance` and still far below any difference that matters.
inline constexpr double frozen_tolerance = 1e-9;

}  // namespace dtfm::sim
