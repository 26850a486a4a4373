// Writes the result of a simulation as JSON, by the schema dtfm-sim/1.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "planner/api/simulate.hpp"

namespace dtfm::io {

/// A result file; the result must have a layout. Equal arguments give equal documents. Unknown values are
/// null; for the devices of a swarm, these are memory, sending and receiving.
nlohmann::ordered_json simulation_document(const api::SimulateRequest& request,
                                           const api::SimulateResult& result);

/// What the reader of the result should know, as sentences: why no iteration was completed, what was decided,
/// and how reliable the times are.
std::vector<std::string> simulation_notes(const api::SimulateRequest& request,
                                          const api::SimulateResult& result);

nlohmann::ordered_json verification_json(const Topology& topology, const sim::VerificationReport& report);

}  // namespace dtfm::io
