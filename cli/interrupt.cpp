#include "cli/interrupt.hpp"

#include <unistd.h>

#include "cli/main_guard.hpp"

namespace dtfm {
namespace {

// A signal handler reaches nothing but globals.
std::atomic<bool> was_interrupted{false}, is_held{false}, has_result{false};
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void on_signal(int) {
  const bool is_second = was_interrupted.exchange(true);
  if (is_held || (has_result && !is_second)) return;
  if (!has_result) {
    constexpr char text[] = "interrupted before there was a plan\n";
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text, sizeof text - 1);
  }
  ::_exit(exit_code::interrupted);
}

}  // namespace

InterruptWatch::InterruptWatch() {
  was_interrupted = has_result = false;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, &before_interrupt_);
  ::sigaction(SIGTERM, &action, &before_terminate_);
}

InterruptWatch::~InterruptWatch() {
  ::sigaction(SIGINT, &before_interrupt_, nullptr);
  ::sigaction(SIGTERM, &before_terminate_, nullptr);
}

void InterruptWatch::keep_result() {
  has_result = true;
}

const std::atomic<bool>& InterruptWatch::interrupted() const {
  return was_interrupted;
}

InterruptHold::InterruptHold() {
  is_held = true;
}

InterruptHold::~InterruptHold() {
  is_held = false;
}

}  // namespace dtfm
