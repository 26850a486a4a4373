// Reads what is planned or simulated on a topology: a job, and the constants of its trainer.
#pragma once

#include <optional>
#include <string>

#include "core/base/shared.hpp"
#include "core/plan/problem.hpp"

namespace dtfm::io {

/// Inputs of a problem other than its topology.
struct ProblemFiles {
  std::optional<std::string> job = {};          // file
  std::optional<int> batch = {};                // global batch, samples; empty: that of the job
  std::optional<std::string> calibration = {};  // file or name of a shipped one; empty: see calibration_for
};

struct ReadProblem {
  Problem problem;
  std::optional<CalibrationUncertainty> spread;  // of its constants, if known
};

/// Without a file, the job is `fallback`. Throws Error.
ReadProblem read_problem(Shared<Topology> topology, const ProblemFiles& files, const Job& fallback);

/// Replaces the global batch of the job, if `batch` is given. Throws Error unless it is a multiple of every
/// micro-batch that the job permits.
void set_global_batch(const std::optional<int>& batch, Job& job);

/// Throws Error unless `batch`, the value of --batch, is a multiple of the micro-batch.
void check_multiple(int batch, int micro_batch);

}  // namespace dtfm::io
