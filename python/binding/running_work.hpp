// Runs work of the library in the calling Python thread without the interpreter's lock, and listens meanwhile
// to Ctrl-C and to what progress callbacks raise.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include <nanobind/nanobind.h>

#include "core/base/work.hpp"

namespace dtfm::python {

/// Called with keyword arguments that say how far the work has come.
using Progressed = nanobind::object;

class RunningWork {
 public:
  explicit RunningWork(const std::optional<Progressed>& progress);
  ~RunningWork();
  RunningWork(const RunningWork&) = delete;
  RunningWork& operator=(const RunningWork&) = delete;

  /// True once Ctrl-C was pressed or the callback has raised. Only the calling thread asks the interpreter,
  /// at most every 50 ms. The functions must not outlive this object.
  StopFunction stop() const {
    return [this] { return must_stop(); };
  }
  std::function<void(const Progress&)> on_progress() const;
  bool is_stopped() const { return stopped_.load(std::memory_order_relaxed); }
  /// Raises what the callback has raised.
  void rethrow() const {
    if (raised_) throw nanobind::python_error(*raised_);
  }

 private:
  bool must_stop() const;
  void keep_raised() const;

  const std::optional<Progressed>& progress_;
  const std::thread::id caller_ = std::this_thread::get_id();
  mutable std::atomic<bool> stopped_ = false;
  mutable long next_check_ms_;
  mutable std::optional<nanobind::python_error> raised_;
};

/// From this call on, work in a child process that fork makes uses one thread.
void watch_forks();
/// The number of threads for work that may use `threads`. It does not change results.
int usable_threads(int threads);

/// Ends all work of other threads and waits for it, because a thread that asks for the lock of an interpreter
/// that has ended aborts the process. To be called when the interpreter exits, with its lock.
void end_all_work();

/// The result of `work(RunningWork)`, which runs without the interpreter's lock.
template <class Task>
auto run_released(const std::optional<Progressed>& progress, const Task& task) {
  const RunningWork running(progress);
  try {
    auto result = [&] {
      const nanobind::gil_scoped_release released;
      return task(running);
    }();
    running.rethrow();
    return result;
  } catch (const nanobind::python_error&) {
    throw;
  } catch (...) {
    running.rethrow();  // what the callback has raised is why the work has no result
    throw;
  }
}

}  // namespace dtfm::python
