// How long trainers take for an iteration of a plan.
#pragma once

#include <string>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/plan/problem.hpp"
#include "core/base/work.hpp"
#include "core/plan/target_settings.hpp"

namespace dtfm::api {

/// What a target makes of a plan.
struct TargetTime {
  Target target = {};
  std::string obstacle = {};               // why it cannot run the plan; empty if it can
  std::vector<TargetChange> changes = {};  // of the settings
  double seconds = 0;                      // simulated, of an undisturbed iteration; 0 with an obstacle
  bool exceeds_memory = false;

  bool runs_as_planned() const { return obstacle.empty() && changes.empty(); }
};

/// Simulates one undisturbed iteration of `plan` as `target` runs it. `problem` has the job of the plan. An
/// error of the simulator is an obstacle. Throws WorkStopped.
TargetTime time_on_target(const Problem& problem, const Plan& plan, Target target,
                          const StopFunction& stop = {});

/// The same for every target, in the order of target_table(). Does not depend on the number of threads.
std::vector<TargetTime> time_on_targets(const Problem& problem, const Plan& plan, const Work& work);

}  // namespace dtfm::api
