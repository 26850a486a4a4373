// Search for the Pareto front of iteration time, price and number of devices.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "planner/search/iteration_time/iteration_search.hpp"

namespace dtfm::search {

struct ParetoSearch {
  IterationSearchResult result;  // of the requested objective, as without the others
  /// Plans to simulate: the finalists, those of the other objectives, and the front of all plans found, by
  /// their estimates.
  std::vector<PlanCandidate> candidates;
  long long evaluations = 0;  // of all searches
  Stopped stopped = Stopped::converged;
  std::vector<std::pair<Objective, std::string>> failures;  // objectives without a plan, and why
};

/// Steps of the search:
/// 1. A complete search for each objective, that of `options` first: time, price if any is known, devices.
/// Without a limit, the ends of the front are therefore no worse than the plans that single searches find.
/// 2. Sweep: for limits on the number of devices, each 1.25 times the previous one, plans with every number
/// of stages and as many replicas as the limit allows, under the decisions of the front.
/// 3. Annealing of every plan of the front, by time and by price, twice; in total with as many moves as in
/// one search of step 1.
///
/// `evaluations` limits each search of step 1, and steps 2 and 3 together. With a time limit alone,
/// everything that a search without limit does comes first, each search of step 1 within an equal part of the
/// limit. If time is left, step 3 is repeated with twice the moves each time; every plan of the front without
/// limit then has one that is as good in every objective. The result does not depend on the number of
/// threads. Throws what `search_iteration` throws for the objective of `options`.
ParetoSearch search_pareto(const Problem& problem, const IterationSearchOptions& options);

}  // namespace dtfm::search
