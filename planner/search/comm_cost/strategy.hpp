// The search: from a cost model to a placement. A strategy is one function and one row in the table of
// strategy.cpp.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/cost/comm_cost/comm_cost.hpp"

namespace dtfm::search {

struct Progress {
  long long evaluations = 0, budget = 0;  // budget 0: open-ended
  double best = 0;                        // s
  double lower_bound = 0;                 // s
};

struct SearchOptions {
  std::uint64_t seed = 0;
  int threads = 1;
  std::optional<long long> evaluations;  // candidate placements to price; nothing: the strategy's own default
  std::optional<double> time_limit;      // s; gives up determinism
  std::optional<std::chrono::steady_clock::time_point> begin;  // that `time_limit` counts from; nothing: now
  bool prove = false;  // then work on until the lower bound meets the cost; half of a time limit is for that
  const std::atomic<bool>* interrupted = nullptr;    // set from outside: return the best so far
  std::function<void(const Progress&)> on_progress;  // called from one thread, now and then
};

/// What ended a search: the evaluations that were asked for; the search itself, which goes no further; a
/// proof; that it has seen all there is to see; or the user.
enum class Stopped { evaluations, converged, optimal, complete, time_limit, interrupted };
std::string_view name_of(Stopped stopped);

/// The best cost known after so many evaluations.
struct ConvergencePoint {
  long long evaluations = 0;
  double cost = 0;  // s
};

struct LowerBound {
  double value = 0;    // s: no placement costs less
  std::string method;  // how it was found, in words
};

struct SearchResult {
  Placement placement;
  cost::CommCost cost;  // of `placement` as deployed
  long long evaluations = 0;
  Stopped stopped = Stopped::converged;
  std::vector<ConvergencePoint> convergence;
  LowerBound lower_bound;
};

class SearchRun;

struct Strategy {
  std::string_view name;
  std::string_view summary;
  Stopped (*run)(SearchRun&);
};

inline constexpr std::string_view default_strategy = "evolutionary";

std::span<const Strategy> strategies();
/// Throws Error for an unknown name.
const Strategy& strategy_named(std::string_view name);
/// Runs the strategy of that name, then bounds its result from below. Throws Error for an unknown name.
/// `stopped` says what ended the search or, where that came first, the work on the bound.
SearchResult search_comm_cost(const cost::CommCostModel& model, std::string_view strategy, const SearchOptions& options);

}  // namespace dtfm::search
