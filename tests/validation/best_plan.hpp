// Returns the plan of the default search with its simulated time, for tables of plans.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "core/base/index.hpp"
#include "core/base/parallel.hpp"
#include "planner/search/iteration_time/iteration_search.hpp"
#include "simulator/graph/graph_replay.hpp"
#include "simulator/iteration/iteration_graph.hpp"

namespace dtfm {
using namespace search;
using namespace sim;

/// Returns the simulated seconds of an iteration.
inline double simulated_s(const PlanCandidate& candidate) {
  return replay(iteration_graph(candidate.job->problem, candidate.plan).graph).makespan;
}

struct BestPlan {
  Shape shape;
  double seconds = 0;  // simulated
};

/// Returns the finalist with the shortest simulated iteration. Without a number of evaluations, the search
/// converges.
inline BestPlan best_plan(const Problem& problem, int threads, std::optional<long long> evaluations = {}) {
  IterationSearchOptions options;
  options.common.threads = threads;
  options.common.evaluations = evaluations;
  const IterationSearchResult found = search_iteration(problem, options);
  const std::vector<double> seconds =
      parallel_map(static_cast<int>(found.finalists.size()), threads,
                   [&](int i) { return simulated_s(found.finalists[at(i)]); });
  const auto best = std::min_element(seconds.begin(), seconds.end());
  return {found.finalists[static_cast<std::size_t>(best - seconds.begin())].shape(), *best};
}

}  // namespace dtfm
