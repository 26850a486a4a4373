// Ctrl-C (SIGINT) and SIGTERM: the first asks for the best plan so far, the second quits at once.
#pragma once

#include <atomic>

#include <signal.h>

namespace dtfm {

/// While it lives, the signals set a flag instead of ending the program. One at a time.
class InterruptWatch {
 public:
  InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;
  ~InterruptWatch();

  const std::atomic<bool>& interrupted() const;

 private:
  struct sigaction before_interrupt_ {
  }, before_terminate_{};
};

/// While it lives, even a second signal does not quit: a file is being written.
class InterruptHold {
 public:
  InterruptHold();
  InterruptHold(const InterruptHold&) = delete;
  InterruptHold& operator=(const InterruptHold&) = delete;
  ~InterruptHold();
};

}  // namespace dtfm
