#include "cli/common/interrupt.hpp"

#include <cstring>

#include <unistd.h>

#include "cli/common/main_guard.hpp"

namespace dtfm::cli {
namespace {

// A signal handler can access only globals.
std::atomic<bool> was_interrupted{false}, is_blocked{false}, has_result{false};
std::atomic<const char*> pending_result{""};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<const char*>::is_always_lock_free);

/// Prints to stderr by write(), which unlike stdio is safe in a signal handler.
void write_error(const char* text) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text, std::strlen(text));
}

extern "C" void handle_signal(int) {
  const bool is_second = was_interrupted.exchange(true);
  if (is_blocked || (has_result && !is_second)) return;
  if (!has_result) {
    write_error("interrupted before there was ");
    write_error(pending_result);
    write_error("\n");
  }
  ::_exit(exit_code::interrupted);
}

}  // namespace

const std::atomic<bool>& interrupt_flag() {
  return was_interrupted;
}

void request_interrupt() {
  was_interrupted = true;
}

InterruptWatch::InterruptWatch(const char* result) {
  pending_result = result;
  was_interrupted = has_result = false;
  struct sigaction action {};
  action.sa_handler = handle_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, &before_interrupt_);
  ::sigaction(SIGTERM, &action, &before_terminate_);
  ::sigaction(SIGHUP, &action, &before_hang_up_);
}

InterruptWatch::~InterruptWatch() {
  ::sigaction(SIGINT, &before_interrupt_, nullptr);
  ::sigaction(SIGTERM, &before_terminate_, nullptr);
  ::sigaction(SIGHUP, &before_hang_up_, nullptr);
}

void InterruptWatch::keep_result() {
  has_result = true;
}

InterruptHold::InterruptHold(bool is_needed) {
  is_blocked = is_needed;
}

InterruptHold::~InterruptHold() {
  is_blocked = false;
}

}  // namespace dtfm::cli
