// Formats the summary of a simulated swarm.
#pragma once

#include <string>

#include "planner/core/problem.hpp"
#include "simulator/io/report_json.hpp"

namespace dtfm::cli {

/// Some 40 lines, however many peers there are. Of a record that has a swarm.
std::string format_swarm_summary(const Problem& problem, const sim::SimReport& report,
                                 const io::SimRecord& record);

}  // namespace dtfm::cli
