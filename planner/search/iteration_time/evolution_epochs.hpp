// Evolution of the best plans of a search.
#pragma once

#include <cstdint>

#include "planner/search/iteration_time/search_state.hpp"

namespace dtfm::search {

/// Evolves the best plans in epochs. Four islands of each epoch start from the same plans, the best so far,
/// with different random numbers. The first epoch has additional islands, which start from the best plans of
/// other families. Each is restricted to one number of pipelines, or to one recomputation mode, that the best
/// plan does not have, because plans that are better at first would crowd such plans out. Evolution changes
/// the number and depth of pipelines, which annealing keeps. `round` must differ between calls. Does nothing
/// in a warm start or for a Pareto front, or if no plan of the pool can be evolved.
void evolve_in_epochs(SearchState& state, std::uint64_t round);

}  // namespace dtfm::search
