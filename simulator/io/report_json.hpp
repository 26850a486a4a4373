// The result of a simulation as a file: schema dtfm-sim/1 of the contract.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "planner/core/topology.hpp"
#include "simulator/io/swarm_json.hpp"
#include "simulator/report/samples.hpp"
#include "simulator/report/sim_report.hpp"
#include "simulator/simulate.hpp"

namespace dtfm::io {

/// What a result file says besides the result.
struct SimRecord {
  std::string job, scenario;  // names; scenario empty: none
  std::uint64_t seed = 0;
  std::optional<sim::SampleSummary> samples;        // the report is then that of the first run
  std::optional<sim::FairnessComparison> fairness;  // nothing: not known
  std::vector<std::string> notes;              // what a reader should know
  std::string version;
  std::optional<PredictionInterval> interval = {};  // of the iteration time; nothing: not known
  std::optional<SwarmRecord> swarm = {};      // of whose devices memory, sending and receiving are not known
};

/// The text of a result file. Same arguments, same bytes. What is not known is null.
std::string report_json(const Topology& topology, const sim::SimReport& report, const SimRecord& record);

/// The same, to be a part of another document.
nlohmann::ordered_json sim_document(const Topology& topology, const sim::SimReport& report,
                                    const SimRecord& record);

}  // namespace dtfm::io
