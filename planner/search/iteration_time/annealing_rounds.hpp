// Annealing of the best plans of a search, and their evolution.
#pragma once

#include "planner/search/iteration_time/decision_search.hpp"
#include "planner/search/iteration_time/search_state.hpp"

namespace dtfm::search {

/// Anneals in rounds, as step 4 of search_iteration describes. All rounds start from screened plans, since
/// annealed plans are local optima. Screened plans that led to the best ones continue in the next
/// round (successive halving). After the default rounds, and each further one, the best plans are evolved.
/// The pool must not be empty.
void anneal_in_rounds(SearchState& state, DecisionSearch& decision_search);

}  // namespace dtfm::search
