// Several processes (ranks) that compute together. All run the same program on the same input and hold the
// same state. Only independent tasks are distributed: each rank computes some of them, an all-gather gives
// every rank all results, and every rank continues with these. The first rank, the root, prints and writes
// files.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"

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

/// The time by which ranks may decide what to do next; without ranks, the current time.
inline std::chrono::steady_clock::time_point now_of(const Ranks* ranks) {
  return ranks ? ranks->now() : std::chrono::steady_clock::now();
}

/// What is wrong, without the place.
std::string message_of(const Error& error);

}  // namespace dtfm
