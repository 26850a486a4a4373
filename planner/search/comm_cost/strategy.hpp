// The comm-cost search: from a cost model to a placement. A strategy is one function and one row in the table
// of strategy.cpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ranks.hpp"
#include "planner/cost/comm_cost/comm_cost.hpp"

namespace dtfm::search {

struct Progress {
  long long evaluations = 0, budget = 0;  // budget 0: unlimited
  double best = 0;                        // s
  double lower_bound = 0;                 // s
};

struct SearchOptions {
  std::uint64_t seed = 0;
  int threads = 1;
  Ranks* ranks = nullptr;                // processes that search together; null: only this one
  std::optional<long long> evaluations;  // candidate placements to evaluate; empty: the strategy's default
  std::optional<double> time_limit;      // s; makes the result nondeterministic
  std::optional<std::chrono::steady_clock::time_point> begin;  // start of `time_limit`; empty: now
  bool prove = false;          // continue until the lower bound meets the cost; takes half of a time limit
  std::function<bool()> stop;  // may be called by any thread; true returns the best result so far
  std::function<void(const Progress&)> on_progress;  // called occasionally, by one thread at a time
};

/// Whether the caller asks the search to stop.
inline bool is_stopped(const SearchOptions& options) {
  return options.stop && options.stop();
}

inline Workers workers_of(const SearchOptions& options) {
  return {options.threads, options.ranks};
}

/// What ended a search: the requested evaluations were used up; the strategy converged; the result is proven
/// optimal; all placements were evaluated; or the time limit or an interrupt.
enum class Stopped { evaluations, converged, optimal, complete, time_limit, interrupted };
std::string_view name_of(Stopped stopped);

/// The best cost known after a number of evaluations.
struct ConvergencePoint {
  long long evaluations = 0;
  double cost = 0;  // s
};

struct LowerBound {
  double value = 0;    // s: no placement costs less
  std::string method;  // description of how it was found
};

struct SearchResult {
  Placement placement;
  cost::CommCost cost;  // cost of `placement` as deployed
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
  bool is_divided = false;  // among ranks; otherwise only the root runs it
};

inline constexpr std::string_view default_strategy = "evolutionary";

std::span<const Strategy> strategies();
/// Throws Error for an unknown name.
const Strategy& strategy_named(std::string_view name);
/// Runs the strategy, then computes a lower bound for its result, which among ranks only the root does.
/// `stopped` is what ended the search or, if that came first, the work on the bound. Throws Error for an
/// unknown name.
SearchResult search_comm_cost(const cost::CommCostModel& model, std::string_view strategy,
                              const SearchOptions& options);

}  // namespace dtfm::search
