// Handles Ctrl-C (SIGINT), SIGTERM and a closed terminal (SIGHUP). Once there is a result to keep, the first
// signal asks for the result so far and the second quits immediately. Before that, the first signal quits.
#pragma once

#include <atomic>

#include <signal.h>

#include "core/base/stop.hpp"

namespace dtfm::cli {

/// Whether the program was interrupted while there is or was a result to keep.
const std::atomic<bool>& interrupt_flag();
/// Does what a first signal does if there is a result to keep.
void request_interrupt();

/// During its lifetime, the signals end the program with `exit_code::interrupted` or set a flag. At most one
/// instance may exist at a time.
class InterruptWatch {
 public:
  /// `result` names what is missing before `keep_result` is called, for the message: "a plan".
  explicit InterruptWatch(const char* result);
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;
  ~InterruptWatch();

  /// From this call on, the first signal only sets the flag, because the work in progress can return a
  /// result whenever it is stopped.
  void keep_result();
  const std::atomic<bool>& interrupted() const { return interrupt_flag(); }
  /// Returns a function that tells whether the flag is set. It must not outlive this object.
  StopFunction stop() const {
    return [this] { return interrupted().load(std::memory_order_relaxed); };
  }

 private:
  struct sigaction before_interrupt_ {
  }, before_terminate_, before_hang_up_{};
};

/// If `is_needed`, even a second signal does not quit during its lifetime, because a file is being written.
class InterruptHold {
 public:
  explicit InterruptHold(bool is_needed);
  InterruptHold(const InterruptHold&) = delete;
  InterruptHold& operator=(const InterruptHold&) = delete;
  ~InterruptHold();
};

}  // namespace dtfm::cli
