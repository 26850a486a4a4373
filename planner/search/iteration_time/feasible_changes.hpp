// Changes that would make a plan fit in memory if none does.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "core/plan/execution_config.hpp"
#include "core/plan/setting_value.hpp"
#include "planner/search/iteration_time/iteration_search.hpp"

namespace dtfm::search {

/// A change with which the planner finds a plan that fits in memory.
struct FeasibleChange {
  enum class Kind { shape, settings, target, hosts, memory };
  Kind kind = Kind::shape;
  bool frees_stages = false, frees_replicas = false;            // limits that are dropped, for `shape`
  Shape shape = {};                                             // of the plan that was found, for `shape`
  std::vector<std::pair<Setting, SettingValue>> settings = {};  // of the job, for `settings`
  int hosts = 0;         // more, like that of the device `like`, for `hosts`
  int like = no_index;   // the first device of a host
  double gigabytes = 0;  // of every GPU, for `memory`
};

/// Changes, each by itself, and each tried with a short search that found a plan that fits, in this order:
/// - no limits on the shape;
/// - another value of one setting that the job fixes; if there is none, of as few of them together as
/// possible;
/// - no target: `untargeted` is the job without the restrictions of its target, if that is known;
/// - optimizer state on the host, and if no change above is enough, together with other settings;
/// - more hosts like one of the topology, the fewest; if there are none, GPUs with more memory.
/// Empty if the work is stopped.
std::vector<FeasibleChange> feasible_changes(const Problem& problem, const IterationSearchOptions& options,
                                             const std::optional<Job>& untargeted = {});

}  // namespace dtfm::search
