// What the stages of a plan hold, for memory_use.
#pragma once

#include "planner/core/plan.hpp"
#include "planner/core/problem.hpp"
#include "simulator/report/memory_use.hpp"

namespace dtfm {

/// By stage as labels number them (computed_stages). A device that the plan does not have, because it has
/// taken the place of another, holds what the stage of that number holds in the pipeline where that is most.
/// With `copies`, every device of the plan has weights and optimizer state of the stage before its own, too,
/// the first that of the last.
StageMemoryOf stage_memory(const Problem& problem, const Plan& plan, bool copies = false);

}  // namespace dtfm
