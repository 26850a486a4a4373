// How far the search is, on stderr: a live bar on a terminal, a line now and then elsewhere.
#pragma once

#include <chrono>
#include <string>

#include "planner/search/strategy.hpp"

namespace dtfm {

class ProgressPrinter {
 public:
  /// Detects whether stderr is a terminal. `quiet`: prints nothing.
  explicit ProgressPrinter(bool quiet);
  ProgressPrinter(const ProgressPrinter&) = delete;
  ProgressPrinter& operator=(const ProgressPrinter&) = delete;
  /// Takes the live bar away.
  ~ProgressPrinter();

  void show(const Progress& progress);

 private:
  using Clock = std::chrono::steady_clock;

  bool quiet_, live_;
  bool drawn_ = false;
  Clock::time_point next_;  // when the next update is due
};

/// "3,200 of 5,000 evaluations, best 49.2243 s, bound 41.0231 s, gap 16.7 %"
std::string progress_text(const Progress& progress);

}  // namespace dtfm
