// Several processes (ranks) that compute together. All run the same program on the same input and hold the
// same state. Only independent tasks are distributed: each rank computes some of them, an all-gather gives
// every rank all results, and every rank continues with these. The first rank, the root, prints and writes
// files.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/byte_codec.hpp"
#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/base/parallel.hpp"

namespace dtfm {

/// What identifies the computation of a rank.
struct RankInput {
  std::string version;               // of the program
  std::vector<std::string> options;  // that may change the result, each with its value
  std::string files;                 // names and contents
  int threads = 1;                   // may differ from those of other ranks
};

/// Passes bytes between processes.
class RankTransport {
 public:
  virtual ~RankTransport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Returns the bytes of every rank, by rank. All ranks call this equally often. Returns nullopt if a rank
  /// was lost or this one has to stop: then it is never called again.
  virtual std::optional<std::vector<std::string>> exchange(const std::string& own) = 0;
};

/// The ranks, from the view of one of them. Their clocks differ, and if each decided by its own clock what to
/// do next, they could deadlock. Therefore, outside of tasks, `now` returns the same time on all ranks: the
/// latest of all clocks at the last exchange.
class Ranks {
 public:
  using Clock = std::chrono::steady_clock;

  /// Waits for the other ranks. `transport` must outlive this.
  explicit Ranks(RankTransport& transport);
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  bool is_root() const { return transport_.rank() == 0; }
  int rank() const { return transport_.rank(); }
  int size() const { return transport_.size(); }
  /// The tasks of a rank among `count`, ascending.
  std::vector<int> tasks_of(int rank, int count) const;
  /// Whether tasks are distributed. False inside a task, after `leave`, and after another rank was lost.
  bool divides() const { return !is_alone_ && !in_tasks_; }
  /// Whether another rank was lost or this one had to stop.
  bool is_broken() const { return is_broken_; }
  /// Safe to call from any thread.
  Clock::time_point now() const;
  /// Number of exchanges so far, and their bytes, of all ranks together.
  int rounds() const { return rounds_; }
  long long bytes() const { return bytes_; }

  /// Throws Error if the input of a rank differs from that of the root. Counts the threads of all ranks.
  void check_same_input(const RankInput& input);
  /// Threads of all ranks together; the same on every rank. `own`: of this rank, which is taken for that of
  /// all until their input has been checked.
  int thread_count(int own) const { return thread_count_ > 0 ? thread_count_ : own * size(); }
  /// From now on this rank computes alone.
  void leave() { is_alone_ = true; }
  /// Ends the common work: waits for the other ranks, unless one was lost. `error`, if not empty, is why this
  /// rank ended; ranks that still expect results of it throw it.
  void finish(const std::string& error);

  /// Marks the time in which this rank computes tasks, and its clock is its own.
  class InTasks {
   public:
    explicit InTasks(Ranks& ranks) : ranks_(ranks) { ranks_.in_tasks_ = true; }
    InTasks(const InTasks&) = delete;
    InTasks& operator=(const InTasks&) = delete;
    ~InTasks() { ranks_.in_tasks_ = false; }

   private:
    Ranks& ranks_;
  };

  /// Returns the results of every rank, by rank; nullopt if this rank has to continue alone. Throws the error
  /// of a rank that has ended with one.
  std::optional<std::vector<std::string>> exchange_results(const std::string& own);

 private:
  struct Message;
  std::optional<std::vector<Message>> exchange(const Message& own);

  RankTransport& transport_;
  Clock::time_point begin_;
  std::chrono::nanoseconds agreed_{0};  // since `begin_`
  std::atomic<bool> in_tasks_{false};
  bool is_alone_ = false, is_broken_ = false, has_ended_ = false;
  int rounds_ = 0, thread_count_ = 0;
  long long bytes_ = 0;
};

/// What computes independent tasks: threads of this process and, if `ranks` is given, other processes.
struct Workers {
  Workers(int thread_count) : threads(thread_count) {}  // NOLINT: threads alone are the usual case
  Workers(int thread_count, Ranks* processes) : threads(thread_count), ranks(processes) {}

  /// Tasks that can run at the same time. The same on every rank.
  int count() const { return ranks ? ranks->thread_count(threads) : threads; }
  bool are_divided() const { return ranks && ranks->divides(); }

  int threads = 1;
  Ranks* ranks = nullptr;
};

/// The time by which ranks may decide what to do next; without ranks, the current time.
inline std::chrono::steady_clock::time_point now_of(const Ranks* ranks) {
  return ranks ? ranks->now() : std::chrono::steady_clock::now();
}

/// What is wrong, without the place.
std::string message_of(const Error& error);

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
/// Error, so does this; if it throws anything else, this throws BrokenInvariant. If another rank is lost, this
/// one computes the missing tasks itself.
template <class Task>
auto distributed_map(int count, const Workers& workers, const Task& task, const void* shared = nullptr) {
  using Result = decltype(task(0));
  if (!workers.are_divided()) return parallel_map(count, workers.threads, task);
  Ranks& ranks = *workers.ranks;
  std::vector<std::optional<TaskOutcome<Result>>> outcomes(at(count));
  const auto compute = [&](const std::vector<int>& tasks) {
    const Ranks::InTasks in_tasks(ranks);
    auto computed = parallel_map(static_cast<int>(tasks.size()), workers.threads,
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
auto computed_by_root(const Workers& workers, const Task& task) {
  return std::move(distributed_map(1, workers, [&](int) { return task(); }).front());
}

}  // namespace dtfm
