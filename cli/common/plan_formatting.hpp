// Formats parts of plans as text.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/plan/job.hpp"
#include "core/plan/plan.hpp"
#include "core/cluster/topology.hpp"

namespace dtfm::cli {

using Rows = std::vector<std::vector<std::string>>;
inline constexpr std::size_t max_rows = 16;  // rows of a table in a summary

/// Returns the rows as a table, and a line that says how many of `all` are omitted.
std::string truncated_table(const Rows& rows, std::size_t all, std::string_view noun);
/// Returns a table of the devices and micro-batches of each pipeline.
std::string format_pipelines(const Topology& topology, const Plan& plan);
/// "4 stages", or "2–4 stages" of pipelines with different depths
std::string format_depth(const Plan& plan);
/// Stages × replicas: "4 × 16", "4 × 8 × 2 tensor", "2–4 × 16"
std::string format_shape(const Plan& plan);
/// Returns six significant digits, without the unit.
std::string short_seconds(double seconds);
/// "3–5", "3", "none"
std::string format_layers(std::pair<int, int> layers);
/// Formats the layers of a stage with several chunks: "0–2, 12–14".
std::string format_layers(const std::vector<std::pair<int, int>>& parts);
/// ", zero1"; empty if nothing is sharded.
std::string format_sharding(const ExecutionConfig& execution);
/// Returns the decisions of the planner other than the assignment of devices: "1f1b, sharded-ps, micro-batch
/// 2, recompute none".
std::string format_job_decisions(const Job& job, const Plan& plan);
/// "oregon×4 virginia×3 tokyo×1", the most frequent site first.
std::string site_composition(const Topology& topology, const std::vector<int>& devices);

}  // namespace dtfm::cli
