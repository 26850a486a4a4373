// All that a report page shows, as one JSON document: schema dtfm-report/1.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "cli/report/timeline_recorder.hpp"
#include "planner/core/topology.hpp"
#include "simulator/io/report_json.hpp"

namespace dtfm::cli {

/// As the result file says it.
struct ReportedRun {
  sim::SimReport report;
  io::SimRecord record;
};

/// What there is to tell; the page leaves out what there is not.
struct ReportContent {
  const Topology& topology;
  std::string program;          // that says it, with its version: "dtfm-plan 0.1.0"
  nlohmann::ordered_json plan;  // of plan_document; null: none
  std::optional<ReportedRun> simulation;
  std::optional<Timeline> timeline;        // of that simulation
  nlohmann::ordered_json comparison = {};  // as dtfm-compare -o writes it; null: none
};

/// At most so many spans, so that a page opens in seconds whatever the run.
inline constexpr long long max_spans = 120'000;

/// Keys `schema`, `program`, `comparison`, `plan`, `critical_path` (all steps of that of the simulation,
/// summed by what they do), `simulation`, `topology` (sites, devices, and the links between sites),
/// `timeline`. Long lists are cut; `left_out` says how much of each. The job is without its layers and their
/// times. Ranks and groups, which say again what the pipelines say, are not in it.
nlohmann::ordered_json report_document(ReportContent content);

}  // namespace dtfm::cli
