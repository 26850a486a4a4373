#include "python/binding/running_work.hpp"

#include <chrono>
#include <string>

#include <pthread.h>
#include <time.h>

#include <nanobind/stl/string.h>

namespace nb = nanobind;

namespace dtfm::python {
namespace {

// Of the process, as the interpreter is.
std::atomic<int> running_works = 0;
std::atomic<bool> interpreter_ends = false;
// A child that fork made of a process with threads of OpenMP has none of them, and would wait for them.
std::atomic<bool> is_forked = false;

/// Milliseconds since an arbitrary start, up to a few behind. A simulation asks once per event; steady_clock
/// takes five times as long to read.
long coarse_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

}  // namespace

RunningWork::RunningWork(const std::optional<Progressed>& progress)
    : progress_(progress), next_check_ms_(coarse_ms()) {
  ++running_works;
}

RunningWork::~RunningWork() {
  --running_works;
}

void watch_forks() {
  pthread_atfork(nullptr, nullptr, [] {
    is_forked = true;
    running_works = 0;
  });
}

int usable_threads(int threads) {
  return is_forked ? 1 : threads;
}

void end_all_work() {
  interpreter_ends = true;
  const nb::gil_scoped_release released;
  while (running_works > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void RunningWork::keep_raised() const {
  stopped_ = true;
  nb::python_error error;  // takes what was raised
  if (!error.matches(PyExc_KeyboardInterrupt)) raised_.emplace(std::move(error));
}

bool RunningWork::must_stop() const {
  if (interpreter_ends.load(std::memory_order_relaxed)) return true;
  if (is_stopped() || std::this_thread::get_id() != caller_) return is_stopped();
  const long now_ms = coarse_ms();
  if (now_ms < next_check_ms_) return false;
  next_check_ms_ = now_ms + 50;
  const nb::gil_scoped_acquire acquired;
  if (PyErr_CheckSignals() != 0) keep_raised();
  return is_stopped();
}

std::function<void(const Progress&)> RunningWork::on_progress() const {
  if (!progress_ || progress_->is_none()) return {};
  return [this](const Progress& progress) {
    if (is_stopped() || interpreter_ends) return;
    const nb::gil_scoped_acquire acquired;
    try {
      nb::dict facts;
      facts["evaluations"] = progress.evaluations;
      facts["budget"] = progress.budget;
      facts["best_s"] = progress.best;
      facts["lower_bound_s"] = progress.lower_bound;
      facts["share"] = progress.share;
      facts["what"] = std::string(progress.what);
      facts["iteration"] = progress.iteration;
      facts["scheme"] = std::string(progress.scheme);
      if (progress.simulated_s) facts["simulated_s"] = *progress.simulated_s;
      (*progress_)(facts);
    } catch (nb::python_error& error) {
      stopped_ = true;
      if (!error.matches(PyExc_KeyboardInterrupt)) raised_.emplace(std::move(error));
    }
  };
}

}  // namespace dtfm::python
