// Annealing of the best plans of a search, and their evolution.
#pragma once

#include "planner/search/iteration_time/decision_search.hpp"
#include "planner/search/iteration_time/search_state.hpp"

namespace dtfm::search {

/// Anneals in rounds until no move is possible or the limit is reached. All rounds start from plans of the
/// screening, since annealed plans are local optima. Starts that led to the best plans continue in the next
/// round (successive halving). After the default rounds, and each further one, the best plans are evolved.
/// The pool must not be empty.
void anneal_in_rounds(SearchState& state, DecisionSearch& decision_search);

}  // namespace dtfm::search
