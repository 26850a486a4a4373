// Changes that would make a plan fit in memory if none does.
#pragma once

#include <utility>
#include <vector>

#include "core/plan/execution_config.hpp"
#include "core/plan/setting_value.hpp"
#include "planner/search/iteration_time/iteration_search.hpp"

namespace dtfm::search {

using Settings = std::vector<std::pair<Setting, SettingValue>>;

/// A change with which some plan fits in memory.
struct FeasibleChange {
  enum class Kind { shape, settings, memory };
  Kind kind = Kind::shape;
  Shape shape = {};        // for `shape`
  Settings settings = {};  // of the job, for `settings`
  double gigabytes = 0;    // of every GPU, for `memory`
};

/// Settings that need less memory than those of the job, where it has others and allows these: full
/// recomputation, of all layers, micro-batches of 1, schedule 1f1b, optimizer state on the host.
Settings smaller_settings(const Job& job);
/// Those of them that are tried together if none is enough: recomputation, optimizer and, if it is smaller,
/// the micro-batch. Empty if recomputation or optimizer is not among them.
Settings smaller_together(const Settings& smaller);

/// Changes of the job, each by itself, the smallest first: those that only cost time (another shape, full
/// recomputation, micro-batches of 1, schedule 1f1b), then optimizer state on the host; if none of these is
/// enough, several settings together; then GPUs with more memory.
std::vector<FeasibleChange> feasible_changes(const Problem& problem, const IterationSearchOptions& options);

}  // namespace dtfm::search
