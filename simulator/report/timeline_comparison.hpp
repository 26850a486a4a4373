// Compares the timeline of a training with the simulated one.
#pragma once

#include <optional>
#include <vector>

#include "simulator/report/timeline.hpp"

namespace dtfm::sim {

struct TimelineComparison {
  /// Spans of a kind that both timelines have, by device and micro-batch, in their order.
  struct Kind {
    SpanKind kind = {};
    int count = 0;
    double simulated_s = 0, measured_s = 0;  // of one span, mean
  };
  /// A computation, whose times count from when the first device began the iteration.
  struct Difference {
    int device = 0;
    TimelineSpan simulated, measured;
  };

  double simulated_s = 0, measured_s = 0;  // length of the iterations
  double tolerance = 0;
  std::vector<Kind> kinds;
  int unmatched = 0;  // spans that only one of them has
  /// The first computation, in simulated time, that starts earlier or later by more than `tolerance` of the
  /// simulated iteration.
  std::optional<Difference> diverges_at = {};
};

/// By default, the tolerance is the difference below which the order of plans is not expected to hold
/// (tests/network/planned_order.py).
TimelineComparison compare_timelines(const Timeline& simulated, const Timeline& measured,
                                     double tolerance = 0.05);

}  // namespace dtfm::sim
