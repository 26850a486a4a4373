// Formats the summary of a simulated swarm.
#pragma once

#include <string>

#include "core/plan/problem.hpp"
#include "simulator/io/report_json.hpp"

namespace dtfm::cli {

/// Returns about 40 lines, independent of the number of peers. `record.swarm` must be set.
std::string format_swarm_summary(const Problem& problem, const sim::SimReport& report,
                                 const io::SimRecord& record);

}  // namespace dtfm::cli
