// Where the settings of a plan contradict those that a job fixes.
#pragma once

#include <string>
#include <vector>

#include "planner/core/job.hpp"
#include "planner/core/plan.hpp"

namespace dtfm {

/// A setting of a plan that differs from that of the job, which does not leave it to the planner.
struct PlanConflict {
  std::string key;      // in `execution` of a plan file: "schedule", "compression.activations"
  std::string problem;  // "schedule 1f1b, but the job's parallelism.schedule is gpipe"
  std::string fix;      // of the job: "set the job's to 1f1b or auto"
};

/// The conflicts of the plan's execution with the job's. The numbers of pipelines, stages and devices per
/// stage are no conflicts, because the job's limit the search for a plan, and a plan may have lost pipelines
/// since. Neither are flushes, unless the job fixes their interval.
std::vector<PlanConflict> plan_conflicts(const Plan& plan, const Job& job);

/// Throws Error with the first conflict, if there is one. `where` is the file of the plan.
void check_no_conflict(const Plan& plan, const Job& job, const std::string& where = "plan");

}  // namespace dtfm
