// The search for plans of which none is better than another in time, price and number of devices at once.
#pragma once

#include <string>
#include <vector>

#include "planner/search/iteration_time/iteration_search.hpp"

namespace dtfm::search {

struct ParetoSearch {
  IterationSearchResult result;  // of the objective that was asked for, as without the others
  /// Its finalists, those of the other objectives, and the front of all plans that were seen, by their
  /// estimates: those to simulate, the finalists first.
  std::vector<PlanCandidate> candidates;
  long long evaluations = 0;  // of all searches
  Stopped stopped = Stopped::converged;
  std::vector<std::string> notes;  // objectives by which nothing was found, and why
};

/// 1. A whole search for each objective, that of `options` first: by time, by price if a price is known, by
/// devices. So without a limit the ends are no worse than what single searches find.
/// 2. Sweep: for largest numbers of devices, each 1.25 times the one before, plans of every number of stages
/// with as many replicas as that allows, under the decisions of the front.
/// 3. Anneal every plan of the front, by time and by price, twice; together as much as in one search of 1.
/// With `evaluations`, each search of 1 has so many, and 2 and 3 together. With a time limit alone, what is
/// done without one comes first, each search of 1 within an even part of the limit; if that was enough, 3
/// goes on, with twice the moves each time, and every plan of the front without a limit has one here that is
/// as good in everything. The number of threads means nothing. Throws what `search_iteration` does for the
/// objective of `options`.
ParetoSearch search_pareto(const Problem& problem, const IterationSearchOptions& options);

}  // namespace dtfm::search
