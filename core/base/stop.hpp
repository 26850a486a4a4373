// Early end of long work: by Ctrl-C or at a time limit.
#pragma once

#include <cstddef>
#include <functional>

namespace dtfm {

/// Returns true once the work should end. May be called by any thread. Empty: the work is never stopped.
using StopFunction = std::function<bool()>;

/// Thrown by work that was stopped and has no result.
struct WorkStopped {};

inline bool is_stopped(const StopFunction& stop) {
  return stop && stop();
}

inline void throw_if_stopped(const StopFunction& stop) {
  if (is_stopped(stop)) throw WorkStopped();
}

/// The same for step number `step`, from 0, of a long loop of short steps. Calls `stop` in every 4096th of
/// them, so that checks cost nothing, and short loops make none.
inline void throw_if_stopped(const StopFunction& stop, std::size_t step) {
  constexpr std::size_t steps_per_check = 4096;
  if (stop && step % steps_per_check == steps_per_check - 1 && stop()) throw WorkStopped();
}

}  // namespace dtfm
