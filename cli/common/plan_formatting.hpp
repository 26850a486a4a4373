// Formats parts of plans as text.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/plan/job.hpp"
#include "core/plan/plan.hpp"
#include "core/cluster/topology.hpp"
#include "core/io/text/format_number.hpp"
#include "core/io/writers/plan_text.hpp"

namespace dtfm::cli {

using io::format_depth;
using io::format_job_decisions;
using io::format_layers;
using io::format_shape;
using io::format_sharding;
using io::short_seconds;

using Rows = std::vector<std::vector<std::string>>;
inline constexpr std::size_t max_rows = 16;  // rows of a table in a summary

/// Returns the rows as a table, and a line that says how many of `all` are omitted.
std::string truncated_table(const Rows& rows, std::size_t all, std::string_view noun);
/// Returns a table of the devices and micro-batches of each pipeline.
std::string format_pipelines(const Topology& topology, const Plan& plan);
/// "oregon×4 virginia×3 tokyo×1", the most frequent site first.
std::string site_composition(const Topology& topology, const std::vector<int>& devices);

}  // namespace dtfm::cli
