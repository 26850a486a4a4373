// Formats the summary of a simulation.
#pragma once

#include <optional>
#include <string>

#include "planner/core/plan.hpp"
#include "planner/core/topology.hpp"
#include "simulator/io/report_json.hpp"

namespace dtfm::cli {

struct SimSummary {
  const Topology& topology;
  const Plan& plan;
  const sim::SimReport& report;
  const io::SimRecord& record;
};

/// Some 40 to 70 lines, however many devices there are.
std::string format_summary(const SimSummary& summary);

}  // namespace dtfm::cli
