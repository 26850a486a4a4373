// Devices that no good plan can use.
#pragma once

#include <vector>

#include "core/plan/job.hpp"
#include "planner/search/iteration_time/plan_candidate.hpp"

namespace dtfm::search {

/// Devices that compute for longer than `iteration_s` in every plan that uses them, however the open
/// decisions of `undecided` are taken. `job` is `undecided` after some decisions.
std::vector<int> too_slow_devices(const DecidedJob& job, const Job& undecided, double iteration_s);

}  // namespace dtfm::search
