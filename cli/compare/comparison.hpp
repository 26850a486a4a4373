// One job on one set of machines under several schemes: what dtfm-compare finds, as a table and as a file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "planner/api/schemes/scheme.hpp"
#include "planner/core/problem.hpp"
#include "simulator/report/sim_report.hpp"

namespace dtfm::cli {

/// Of a scheme under a scenario.
struct ComparedRun {
  std::string error;  // why it could not be simulated; empty: it was
  sim::SimReport report;
};

struct ComparedScheme {
  std::string name, what, assumes;
  api::ChosenLayout chosen;
  std::vector<ComparedRun> runs;  // by scenario; empty without a layout
};

struct ComparedScenario {
  std::string name;
  std::optional<double> horizon_s;  // nothing: runs have so many iterations
};

struct Comparison {
  const Problem& problem;
  std::vector<ComparedScenario> scenarios;  // the first one is that in which nothing happens
  std::uint64_t seed = 0;
  std::vector<ComparedScheme> schemes;
  bool is_interrupted = false;  // then schemes may be missing, and runs short
};

/// A table for each scenario, and what each row assumes.
std::string format_summary(const Comparison& comparison);

/// Schema dtfm-compare/1.
nlohmann::ordered_json comparison_document(const Comparison& comparison);

}  // namespace dtfm::cli
