// Prints progress to stderr: a live bar on a terminal, otherwise a line every two seconds.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "core/base/work.hpp"

namespace dtfm::cli {

class ProgressPrinter {
 public:
  /// Detects whether stderr is a terminal. If `quiet`, nothing is printed. Lines begin with `program`.
  explicit ProgressPrinter(bool quiet, std::string_view program);
  ProgressPrinter(const ProgressPrinter&) = delete;
  ProgressPrinter& operator=(const ProgressPrinter&) = delete;
  /// Removes the live bar.
  ~ProgressPrinter();

  /// Does nothing unless it is time for another update.
  void show(const Progress& progress);

 private:
  using Clock = std::chrono::steady_clock;

  std::string program_;

  bool quiet_, live_;
  bool drawn_ = false;
  Clock::time_point next_;  // time at which the next update is due
};

/// "3,200 of 5,000 evaluations, best 49.2243 s, bound 41.0231 s, gap 16.7 %", "layouts of megatron",
/// "iteration 3, 12.5 s simulated", or what is being computed
std::string format_progress(const Progress& progress);

}  // namespace dtfm::cli
