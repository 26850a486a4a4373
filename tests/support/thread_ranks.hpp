// Ranks as threads of one process, for tests of work that is divided among processes.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/index.hpp"
#include "core/base/ranks.hpp"

namespace dtfm {

/// Where threads exchange bytes, in rounds.
class ExchangeRounds {
 public:
  explicit ExchangeRounds(int size) : arriving_(at(size)) {}

  int size() const { return static_cast<int>(arriving_.size()); }

  /// Returns nullopt in all threads from the time at which one of them is lost.
  std::optional<std::vector<std::string>> exchange(int rank, const std::string& own) {
    std::unique_lock lock(mutex_);
    const int round = round_;
    arriving_[at(rank)] = own;
    if (++arrived_ == size()) {
      complete_ = arriving_;
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return round_ > round || is_lost_; });
    if (round_ == round) return std::nullopt;
    return complete_;
  }

  void lose() {
    const std::lock_guard lock(mutex_);
    is_lost_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> arriving_, complete_;
  int arrived_ = 0, round_ = 0;
  bool is_lost_ = false;
};

class ThreadTransport : public RankTransport {
 public:
  ThreadTransport(ExchangeRounds& rounds, int rank) : rounds_(rounds), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return rounds_.size(); }
  std::optional<std::vector<std::string>> exchange(const std::string& own) override {
    ++exchanges;
    if (lost_in && exchanges >= *lost_in) {
      rounds_.lose();
      return std::nullopt;
    }
    return rounds_.exchange(rank_, own);
  }

  int exchanges = 0;
  std::optional<int> lost_in = {};  // number of the exchange in which this rank is lost

 private:
  ExchangeRounds& rounds_;
  int rank_;
};

/// What one of several ranks does.
struct RankRun {
  Ranks& ranks;
  ThreadTransport& transport;
};

/// Returns work(RankRun) of every rank. Each runs in a thread of its own, and must not throw.
template <class Work>
auto on_thread_ranks(int size, const Work& work, std::optional<int> last_is_lost_in = {}) {
  using Result = decltype(work(std::declval<RankRun>()));
  ExchangeRounds rounds(size);
  std::vector<std::optional<Result>> results(at(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      ThreadTransport transport(rounds, rank);
      if (rank == size - 1) transport.lost_in = last_is_lost_in;
      Ranks ranks(transport);
      results[at(rank)] = work(RankRun{ranks, transport});
      ranks.finish("");
    });
  for (std::thread& it : threads) it.join();
  std::vector<Result> all;
  for (auto& it : results) all.push_back(std::move(*it));
  return all;
}

}  // namespace dtfm
