// What is known of swarms alone, as parts of result files.
#pragma once

#include <optional>

#include <nlohmann/json_fwd.hpp>

#include "planner/core/topology.hpp"
#include "simulator/report/verification_report.hpp"
#include "simulator/swarm/swarm.hpp"

namespace dtfm::io {

/// A swarm, and the price that comparisons go by.
struct SwarmRecord {
  sim::SwarmReport report;
  std::optional<double> usd_per_million_tokens = {};
};

/// What the rest of the result file does not say: nothing of devices, links, events and steps.
nlohmann::ordered_json swarm_json(const SwarmRecord& record);

nlohmann::ordered_json verification_json(const Topology& topology, const sim::VerificationReport& report);

}  // namespace dtfm::io
