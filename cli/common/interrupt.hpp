// Ctrl-C (SIGINT), SIGTERM and the end of the terminal (SIGHUP): once there is something to keep, the first
// asks for what there is so far and the second quits at once; before, the first quits.
#pragma once

#include <atomic>
#include <functional>

#include <signal.h>

namespace dtfm::cli {

/// While it lives, the signals end the program with `exit_code::interrupted` or set a flag. One at a time.
class InterruptWatch {
 public:
  /// `result`: what there is not yet before `keep_result`, for the message: "a plan".
  explicit InterruptWatch(const char* result);
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;
  ~InterruptWatch();

  /// From now on the first signal sets the flag: work has begun that gives a result whenever it ends.
  void keep_result();
  const std::atomic<bool>& interrupted() const;
  /// Tells whether it is set; must not outlive this.
  std::function<bool()> stop() const {
    return [this] { return interrupted().load(std::memory_order_relaxed); };
  }

 private:
  struct sigaction before_interrupt_ {
  }, before_terminate_, before_hang_up_{};
};

/// While it lives, even a second signal does not quit, if it is needed: a file is being written.
class InterruptHold {
 public:
  explicit InterruptHold(bool is_needed);
  InterruptHold(const InterruptHold&) = delete;
  InterruptHold& operator=(const InterruptHold&) = delete;
  ~InterruptHold();
};

}  // namespace dtfm::cli
