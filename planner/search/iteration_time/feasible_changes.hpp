// Changes that would make a plan fit in memory if none does.
#pragma once

#include <string>
#include <vector>

#include "planner/search/iteration_time/iteration_search.hpp"

namespace dtfm::search {

/// Changes of the job, each by itself, with which some plan fits in memory, the smallest first: those that
/// only cost time (another shape, recomputation, a smaller micro-batch, another schedule), then optimizer
/// state on the host, then GPUs with more memory. Each is a phrase that completes "it would fit with".
std::vector<std::string> feasible_changes(const Problem& problem, const IterationSearchOptions& options);

}  // namespace dtfm::search
