// The only place that creates threads. Results are returned in index order, so that folding them gives the
// same value for any number of threads.
#pragma once

#include <exception>
#include <vector>

#include "core/base/index.hpp"

namespace dtfm {

/// Returns {task(0), …, task(count − 1)}, computed on at most `threads` threads. Tasks must not share mutable
/// state. Rethrows the exception of the failed task with the smallest index.
template <class Task>
auto parallel_map(int count, int threads, const Task& task) {
  using Result = decltype(task(0));
  std::vector<Result> results(at(count));
  std::vector<std::exception_ptr> failures(at(count));
#pragma omp parallel for schedule(dynamic) num_threads(threads)
  for (int i = 0; i < count; ++i) {
    const auto index = at(i);
    try {
      results[index] = task(i);
    } catch (...) {
      failures[index] = std::current_exception();
    }
  }
  for (const auto& failure : failures)
    if (failure) std::rethrow_exception(failure);
  return results;
}

}  // namespace dtfm
