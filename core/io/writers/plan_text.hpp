// Formats parts of plans for readers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/plan/job.hpp"
#include "core/plan/plan.hpp"

namespace dtfm::io {

/// "4 stages", or "2–4 stages" of pipelines with different depths
std::string format_depth(const Plan& plan);
/// Stages × replicas: "4 × 16", "4 × 8 × 2 tensor", "2–4 × 16"
std::string format_shape(const Plan& plan);
/// "3–5", "3", "none"
std::string format_layers(std::pair<int, int> layers);
/// Formats the layers of a stage with several chunks: "0–2, 12–14".
std::string format_layers(const std::vector<std::pair<int, int>>& parts);
/// ", zero1"; empty if nothing is sharded.
std::string format_sharding(const ExecutionConfig& execution);
/// Returns the decisions of the planner other than the assignment of devices: "1f1b, sharded-ps, micro-batch
/// 2, recompute none".
std::string format_job_decisions(const Job& job, const Plan& plan);

}  // namespace dtfm::io
