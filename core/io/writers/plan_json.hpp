// Writes plans, and the jobs and settings in them.
#pragma once

#include <optional>

#include <nlohmann/json_fwd.hpp>

#include "core/plan/job.hpp"
#include "core/plan/objective.hpp"
#include "core/plan/plan.hpp"
#include "core/cluster/topology.hpp"

namespace dtfm::io {

/// The part of a plan file (schema dtfm-plan/1) that PlanFile reads back: topology, job,
/// plan and the period of checkpoints, if there is one.
nlohmann::ordered_json plan_json(const Topology& topology, const Job& job, const Plan& plan,
                                 Objective objective = Objective::iteration_time,
                                 std::optional<double> checkpoint_period_s = std::nullopt);

/// `execution` of a plan file, with the keys of jobs, which parse_execution reads back.
nlohmann::ordered_json execution_json(const ExecutionConfig& execution);

/// The settings of `execution` that `parallelism` of a plan file repeats.
nlohmann::ordered_json plan_summary_json(const ExecutionConfig& execution);

/// The job as a JSON document that parse_job, which accepts JSON as YAML, reads back as the same job.
nlohmann::ordered_json job_json(const Job& job);

}  // namespace dtfm::io
