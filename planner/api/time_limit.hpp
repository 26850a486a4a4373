// When work on a plan ends that its time limit, or the caller, cuts short.
#pragma once

#include <algorithm>
#include <chrono>

#include "planner/core/ranks.hpp"
#include "planner/core/stop.hpp"
#include "planner/search/comm_cost/strategy.hpp"

namespace dtfm::api {

/// How long the simulation of the first finalist may take after the time limit, s, and then the work on the
/// lower bound, or on a prediction interval. With short limits, these decide whether the result has them.
inline constexpr double first_simulation_grace_s = 0.1, bound_grace_s = 0.1;

/// Returns true once the caller stops the search or its time limit has passed, but for the limit not before
/// `grace_s` from now. The limit counts from now unless `options.begin` is set. `options.ranks` must outlive
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
