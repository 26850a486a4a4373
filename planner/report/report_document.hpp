// The contents of a report page as one JSON document of schema dtfm-report/1.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "simulator/report/timeline.hpp"
#include "core/cluster/topology.hpp"

namespace dtfm::report {

/// Input of report_document. The page omits sections whose content is not given.
struct ReportContent {
  const Topology& topology;
  std::string program;                         // that wrote the page, with its version: "dtfm-plan 0.1.0"
  nlohmann::ordered_json plan = {};            // from plan_document; null: none
  nlohmann::ordered_json simulation = {};      // from simulation_document; null: none
  std::optional<sim::Timeline> timeline = {};  // of `simulation`
  nlohmann::ordered_json comparison = {};      // as written by dtfm-compare -o; null: none
  std::optional<sim::Timeline> measured = {};  // of a training, to compare with `timeline`
};

/// Limit on timeline spans, so that a page opens in seconds for any run.
inline constexpr long long max_spans = 120'000;

/// The document, with keys `schema`, `program`, `comparison`, `plan`, `critical_path` (all steps of the
/// critical path, summed by description), `simulation`, `topology` (sites, devices, and links between sites),
/// `timeline` and `measured_timeline`. Long lists are truncated, with the number of omitted items in
/// `omitted`. Layers of the job and their times are omitted, and so are ranks and groups, which follow from
/// the pipelines.
nlohmann::ordered_json report_document(ReportContent content);

}  // namespace dtfm::report
