// Formats the summary of a simulation.
#pragma once

#include <optional>
#include <string>

#include "core/plan/plan.hpp"
#include "core/cluster/topology.hpp"
#include "simulator/io/report_json.hpp"

namespace dtfm::cli {

struct SimSummary {
  const Topology& topology;
  const Plan& plan;
  const sim::SimReport& report;
  const io::SimRecord& record;
};

/// Returns about 40 to 70 lines, independent of the number of devices.
std::string format_summary(const SimSummary& summary);

}  // namespace dtfm::cli
