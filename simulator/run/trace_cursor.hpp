// A position in a trace, which advances step by step through all repetitions of the trace.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>

#include "simulator/scenario/scenario.hpp"

namespace dtfm::sim {

class TraceCursor {
 public:
  /// Starts behind all steps up to and including time `date` (s). The trace must outlive this.
  TraceCursor(const Trace& trace, double date) : trace_(&trace) {
    const double first = trace.steps.front().date;
    if (trace.period > 0 && date > first) round_ = std::floor((date - first) / trace.period);
    // The quotient is rounded, so the round may be one too late.
    if (round_ > 0 && first + round_ * trace.period > date) --round_;
    const double in_round = date - round_ * trace.period;
    next_ = static_cast<std::size_t>(
        std::upper_bound(trace.steps.begin(), trace.steps.end(), in_round,
                         [](double a, const Trace::Step& step) { return a < step.date; }) -
        trace.steps.begin());
    while (next_date() <= date) advance();
  }

  /// The time (s) of the next step; infinite if there is none.
  double next_date() const {
    const double infinity = std::numeric_limits<double>::infinity();
    if (next_ < trace_->steps.size()) return trace_->steps[next_].date + round_ * trace_->period;
    return trace_->period > 0 ? trace_->steps.front().date + (round_ + 1) * trace_->period : infinity;
  }
  /// The current value; empty before the first step.
  std::optional<double> value() const {
    if (next_ > 0) return trace_->steps[next_ - 1].value;
    return round_ > 0 ? std::optional(trace_->steps.back().value) : std::nullopt;
  }
  void advance() {
    if (next_ == trace_->steps.size()) {
      ++round_;
      next_ = 0;
    }
    ++next_;
  }

 private:
  const Trace* trace_;
  double round_ = 0;
  std::size_t next_ = 0;  // index of the next step in this round
};

}  // namespace dtfm::sim
