// The parts of result files that only swarms have.
#pragma once

#include <optional>

#include <nlohmann/json_fwd.hpp>

#include "core/model/model.hpp"
#include "core/cluster/topology.hpp"
#include "simulator/report/verification_report.hpp"
#include "simulator/swarm/swarm.hpp"

namespace dtfm::io {

struct SwarmRecord {
  sim::SwarmReport report;
  std::optional<double> usd_per_million_tokens = {};
};

/// Everything in the report except what is elsewhere in a result file: devices, links, events and steps.
/// `input`: what costs count.
nlohmann::ordered_json swarm_json(const SwarmRecord& record, ModelInput input);

nlohmann::ordered_json verification_json(const Topology& topology, const sim::VerificationReport& report);

}  // namespace dtfm::io
