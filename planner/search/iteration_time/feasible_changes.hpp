// Changes that would make a plan fit in memory if none does.
#pragma once

#include <vector>

#include "planner/search/iteration_time/iteration_search.hpp"

namespace dtfm::search {

/// A change with which some plan fits in memory.
struct FeasibleChange {
  enum class Kind { shape, recompute, micro_batch, schedule, offload, recompute_and_offload, memory };
  Kind kind = Kind::shape;
  Shape shape = {};      // for `shape`
  double gigabytes = 0;  // of every GPU, for `memory`
};

/// Changes of the job, each by itself, the smallest first: those that only cost time (another shape, full
/// recomputation, micro-batches of 1, schedule 1f1b), then optimizer state on the host, then GPUs with more
/// memory.
std::vector<FeasibleChange> feasible_changes(const Problem& problem, const IterationSearchOptions& options);

}  // namespace dtfm::search
