// Conflicts between the settings of a plan and those that its job fixes.
#pragma once

#include <string>
#include <vector>

#include "core/plan/job.hpp"
#include "core/plan/plan.hpp"

namespace dtfm {

/// A setting that the job fixes, and in which the plan differs from the job.
struct PlanConflict {
  std::string key;      // in `execution` of a plan file: "schedule", "compression.activations"
  std::string problem;  // "schedule 1f1b, but the job's parallelism.schedule is gpipe"
  std::string fix;      // of the job: "set the job's to 1f1b or auto"
};

/// "schedule 1f1b, but the job's parallelism.schedule is gpipe; set the job's to 1f1b or auto, or use …"
std::string format_conflict(const PlanConflict& conflict);

/// Returns the conflicts between the plan's execution and the job's. Different numbers of pipelines, stages
/// and devices per stage are not conflicts: those of the job only limit a search, and a plan may have lost
/// pipelines since. Different flushes conflict only if the job fixes their interval.
std::vector<PlanConflict> plan_conflicts(const Plan& plan, const Job& job);

/// Throws Error with the first conflict, if there is one. `where` is the file of the plan.
void check_no_conflict(const Plan& plan, const Job& job, const std::string& where = "plan");

}  // namespace dtfm
