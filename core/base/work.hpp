// What computes, and until when: the context that long work gets as one argument, and independent tasks on
// threads and ranks.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/byte_codec.hpp"
#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/base/parallel.hpp"
#include "core/base/ranks.hpp"
#include "core/base/stop.hpp"

namespace dtfm {

/// How far work has come. What does not apply keeps its default.
struct Progress {
  long long evaluations = 0, budget = 0;   // of a search; budget 0: unlimited
  double best = 0, lower_bound = 0;        // of a search, s
  double share = -1;                       // of other work, 0 to 1; negative: unknown
  std::string_view what = {};              // is being computed: "iteration", "fitting all runs"
  long long iteration = 0;                 // of a simulation; of a swarm: the steps of an average stage
  std::optional<double> simulated_s = {};  // by a simulation
  std::string_view scheme = {};            // of a comparison: the scheme whose layouts are being tried
};

/// What work may use, when it has to end, and whom it tells how far it has come.
struct Work {
  Work(int thread_count = 1, Ranks* processes = nullptr,  // NOLINT: threads alone are the usual case
       StopFunction stop_function = {})
      : threads(thread_count), ranks(processes), stop(std::move(stop_function)) {}

  int threads;
  Ranks* ranks;                           // processes that compute together; null: only this one
  StopFunction stop;                      // once it returns true, the work ends with what it has
  std::optional<double> time_limit = {};  // s; makes the result nondeterministic
  std::optional<std::chrono::steady_clock::time_point> begin = {};  // of `time_limit`; empty: now
  std::function<void(const Progress&)> on_progress = {};  // called occasionally, by one thread at a time

  /// Tasks that can run at the same time. The same on every rank.
  int workers() const { return ranks ? ranks->thread_count(threads) : threads; }
  bool is_divided() const { return ranks && ranks->divides(); }
};

/// Whether the caller asks the work to stop.
inline bool is_stopped(const Work& work) {
  return is_stopped(work.stop);
}

/// The same work, with a `stop` that is also true once its time limit and, from now, `grace_s` have passed.
/// `work.ranks` must outlive the result.
Work until_time_limit(Work work, double grace_s = 0);

/// The result of a task, or why it failed.
template <class Result>
struct TaskOutcome {
  std::optional<Result> result;
  std::string where, error;
  bool is_input_error = false;
};

template <class Task>
auto outcome_of(const Task& task, int i) {
  TaskOutcome<decltype(task(i))> outcome;
  try {
    outcome.result = task(i);
  } catch (const Error& error) {
    outcome.where = error.where();
    outcome.error = message_of(error);
    outcome.is_input_error = true;
  } catch (const std::exception& error) {
    outcome.error = error.what();
  }
  return outcome;
}

template <class Result>
struct ByteCodec<TaskOutcome<Result>> {
  template <class Archive, class Value>
  static void transfer(Archive& archive, Value& outcome) {
    archive(outcome.result);
    if (outcome.result) return;
    archive(outcome.where);
    archive(outcome.error);
    archive(outcome.is_input_error);
  }
};

/// Throws the failure of the first failed task, if any.
template <class Result>
std::vector<Result> results_of(std::vector<std::optional<TaskOutcome<Result>>> outcomes) {
  std::vector<Result> results;
  results.reserve(outcomes.size());
  for (auto& outcome : outcomes) {
    if (!outcome->result && outcome->is_input_error) throw Error(outcome->where, outcome->error);
    if (!outcome->result) throw BrokenInvariant(outcome->error);
    results.push_back(std::move(*outcome->result));
  }
  return results;
}

/// Like parallel_map, but distributed: rank r computes the tasks r, r + size, … Every rank must call it with
/// tasks that give the same results. `shared` is what their ByteCodec needs, if anything. If a task throws
/// Error, so does this; if it throws anything else, this throws BrokenInvariant. If another rank is lost,
/// this one computes the missing tasks itself.
template <class Task>
auto distributed_map(int count, const Work& work, const Task& task, const void* shared = nullptr) {
  using Result = decltype(task(0));
  if (!work.is_divided()) return parallel_map(count, work.threads, task);
  Ranks& ranks = *work.ranks;
  std::vector<std::optional<TaskOutcome<Result>>> outcomes(at(count));
  const auto compute = [&](const std::vector<int>& tasks) {
    const Ranks::InTasks in_tasks(ranks);
    auto computed = parallel_map(static_cast<int>(tasks.size()), work.threads,
                                 [&](int i) { return outcome_of(task, tasks[at(i)]); });
    for (std::size_t i = 0; i < tasks.size(); ++i) outcomes[at(tasks[i])] = std::move(computed[i]);
  };
  const std::vector<int> own_tasks = ranks.tasks_of(ranks.rank(), count);
  compute(own_tasks);
  ByteWriter own(shared);
  for (const int i : own_tasks) own.put(*outcomes[at(i)]);
  if (const auto all = ranks.exchange_results(own.bytes())) {
    for (int rank = 0; rank < ranks.size(); ++rank) {
      if (rank == ranks.rank()) continue;
      ByteReader in((*all)[at(rank)], shared);
      for (const int i : ranks.tasks_of(rank, count)) outcomes[at(i)] = in.get<TaskOutcome<Result>>();
      DTFM_ASSERT(in.is_at_end());
    }
    return results_of(std::move(outcomes));
  }
  std::vector<int> missing;
  for (int i = 0; i < count; ++i)
    if (!outcomes[at(i)]) missing.push_back(i);
  compute(missing);
  return results_of(std::move(outcomes));
}

/// The result of `task`, which is not divided. Only the root computes it, so that it may depend on the clock.
template <class Task>
auto computed_by_root(const Work& work, const Task& task) {
  return std::move(distributed_map(1, work, [&](int) { return task(); }).front());
}

}  // namespace dtfm
