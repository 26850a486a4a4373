// Writes the result of a simulation as JSON, by the schema dtfm-sim/1.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/model/model.hpp"
#include "core/cluster/topology.hpp"
#include "simulator/io/swarm_json.hpp"
#include "simulator/report/samples.hpp"
#include "simulator/report/sim_report.hpp"
#include "simulator/simulate.hpp"

namespace dtfm::io {

/// The contents of a result file besides the report.
struct SimRecord {
  std::string job, scenario;  // names; an empty scenario means none
  std::uint64_t seed = 0;
  std::optional<sim::SampleSummary> samples;        // if set, the report is that of the first run
  std::optional<sim::FairnessComparison> fairness;  // empty: unknown
  std::vector<std::string> notes;                   // for the reader of the result
  std::string version;
  std::optional<PredictionInterval> interval = {};  // of the iteration time; empty: unknown
  /// Set for a swarm, for whose devices memory, sending and receiving are unknown.
  std::optional<SwarmRecord> swarm = {};
  ModelInput input = ModelInput::tokens;  // what rates count
};

/// A result file. Equal arguments give equal documents. Unknown values are null.
nlohmann::ordered_json sim_document(const Topology& topology, const sim::SimReport& report,
                                    const SimRecord& record);

}  // namespace dtfm::io
