// Reads what is planned or simulated on a topology: a job, and the constants of its trainer.
#pragma once

#include <optional>
#include <string>

#include "core/base/shared.hpp"
#include "core/plan/problem.hpp"

namespace dtfm::cli {

/// Inputs of a problem other than its topology.
struct ProblemFiles {
  std::optional<std::string> job = {};          // file
  std::optional<int> batch = {};                // value of --batch; empty: that of the job
  std::optional<std::string> calibration = {};  // file or name of a shipped one; empty: see calibration_for
};

struct ReadProblem {
  Problem problem;
  std::optional<CalibrationUncertainty> spread;  // of its constants, if known
};

/// Without a file, the job is `fallback`. Throws Error.
ReadProblem read_problem(Shared<Topology> topology, const ProblemFiles& files, const Job& fallback);

}  // namespace dtfm::cli
