// The settings with which a target runs a job or a plan.
#pragma once

#include <string>
#include <vector>

#include "core/plan/job.hpp"
#include "core/plan/plan.hpp"

namespace dtfm {

/// A setting that a target replaces, in the notation of job files.
struct TargetChange {
  std::string key;       // "parallelism.schedule"
  std::string from, to;  // "gpipe", "1f1b-blocking"

  friend bool operator==(const TargetChange&, const TargetChange&) = default;
};

/// "schedule 1f1b-blocking instead of gpipe"; "planned schedule instead of gpipe" if it becomes `auto`.
std::string format_change(const TargetChange& change);

/// The changes with what the planner decided where they left a setting to it.
std::vector<TargetChange> decided_changes(std::vector<TargetChange> changes, const Job& decided);

/// Sets the target of the job, and restricts all settings to what it runs. Where it cannot run what the job
/// says, the setting becomes `auto` if the target leaves a choice. Applied again, it changes nothing.
std::vector<TargetChange> restrict_to_target(Job& job, Target target);

/// A plan as a target runs it, for a job without open decisions.
struct TargetedPlan {
  Job job;
  Plan plan;
  std::vector<TargetChange> changes;  // of the settings; the pipelines are the same
};

/// Throws NotRunnable if the target cannot run the pipelines of the plan.
TargetedPlan run_on_target(const Plan& plan, const Job& job, Target target);

}  // namespace dtfm
