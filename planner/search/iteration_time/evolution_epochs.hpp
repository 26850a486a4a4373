// Evolution of the best plans of a search.
#pragma once

#include <cstdint>

#include "planner/search/iteration_time/search_state.hpp"

namespace dtfm::search {

/// Evolves the best plans, in epochs. Every island of an epoch starts from the same plans, the best so far,
/// with random numbers of its own. More islands of the first epoch each keep one number of pipelines, or one
/// recomputation, that the best plan does not have: such plans are otherwise crowded out by others that are
/// better at first. Evolution changes the number and depth of pipelines, which annealing
/// keeps. `round` must differ between calls. Does nothing in a warm start or for a Pareto front, or if no
/// plan of the pool can be evolved.
void evolve_in_epochs(SearchState& state, std::uint64_t round);

}  // namespace dtfm::search
