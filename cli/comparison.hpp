// One job on one set of machines under several schemes: what dtfm-compare finds, as a table and as a file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/core/problem.hpp"
#include "simulator/report/sim_report.hpp"
#include "simulator/schemes/scheme.hpp"

namespace dtfm {

/// Of a scheme under a scenario.
struct ComparedRun {
  std::string error;  // why it could not be simulated; empty: it was
  SimReport report;
};

struct ComparedScheme {
  std::string name, what, assumes;
  ChosenLayout chosen;
  std::vector<ComparedRun> runs;  // by scenario; empty without a layout
};

struct Comparison {
  const Problem& problem;
  std::vector<std::string> scenarios;  // names; the first one is that in which nothing happens
  std::uint64_t seed = 0;
  std::vector<ComparedScheme> schemes;
};

/// As many tokens as an iteration of the job has, at the rate of the run: seconds. 0: it completed no
/// iteration.
double seconds_per_batch(const Comparison& comparison, const ComparedRun& run);

std::string summary_text(const Comparison& comparison);
/// Schema dtfm-compare/1.
std::string comparison_json(const Comparison& comparison);

}  // namespace dtfm
