// Runs other programs, several at a time, and keeps what they print. Nothing passes through a shell.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/base/stop.hpp"

namespace dtfm::cli {

enum class ProgramEnd {
  exited,
  killed,     // by a signal that another process sent
  not_found,  // the program is not on PATH or cannot be executed
  timed_out,
  too_long,  // printed more than the limit
};

struct ProgramRun {
  std::vector<std::string> arguments;      // the program first, which is looked up on PATH
  std::vector<std::string> environment{};  // NAME=VALUE, in addition to that of this process
  bool shows_errors = false;               // whether stderr is that of this process instead of `errors`

  // Set by run_programs:
  ProgramEnd end = ProgramEnd::exited;
  int status = 0;                  // exit status
  std::string output{}, errors{};  // stdout, and the beginning of stderr
};

struct RunLimits {
  double timeout_s = 30;  // of each program; 0: none
  std::size_t max_output = std::size_t{4} << 20, max_at_a_time = 16;
};

/// Runs all programs in process groups of their own, with nothing on stdin. Programs that exceed a limit are
/// terminated with all their children, and so are all once `stop` returns true; then it throws WorkStopped.
/// `on_end` is called with the number of programs that have ended.
void run_programs(std::span<ProgramRun> runs, const RunLimits& limits, const StopFunction& stop,
                  const std::function<void(std::size_t)>& on_end = {});

}  // namespace dtfm::cli
