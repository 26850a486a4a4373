// When a time limit, or the caller, ends work on a plan.
#pragma once

#include <algorithm>
#include <chrono>

#include "core/base/ranks.hpp"
#include "core/base/stop.hpp"
#include "planner/search/comm_cost/strategy.hpp"

namespace dtfm::api {

/// Seconds past the time limit that the first finalist's simulation, and then the lower bound or a prediction
/// interval, may take, so that results have them even with short limits.
inline constexpr double first_simulation_grace_s = 0.1, bound_grace_s = 0.1, explanation_grace_s = 0.2;

/// Returns a function that is true once the caller stops the search or, at least `grace_s` from now, its
/// limit has passed. The limit counts from now unless `options.begin` is set. `options.ranks` must outlive
/// the result.
inline StopFunction stop_of(const search::SearchOptions& options, double grace_s = 0) {
  if (!options.time_limit) return options.stop;
  const auto seconds = [](double count) {
    return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
        std::chrono::duration<double>(count));
  };
  const auto end = std::max(options.begin.value_or(now_of(options.ranks)) + seconds(*options.time_limit),
                            now_of(options.ranks) + seconds(grace_s));
  return
      [stop = options.stop, ranks = options.ranks, end] { return is_stopped(stop) || now_of(ranks) >= end; };
}

}  // namespace dtfm::api
