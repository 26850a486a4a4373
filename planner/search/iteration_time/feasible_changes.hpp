// What would make a plan possible where none fits the memory.
#pragma once

#include <string>
#include <vector>

#include "planner/search/iteration_time/iteration_search.hpp"

namespace dtfm::search {

/// Changes of the job, each by itself, with which some plan fits, the smallest first: what costs only time
/// (more stages than asked for, recomputation, a smaller micro-batch, another schedule, drains), then the
/// optimizer's state on the host, then GPUs with more memory. In words that follow "it would fit with".
std::vector<std::string> feasible_changes(const Problem& problem, const IterationSearchOptions& options);

}  // namespace dtfm::search
