// Options of the problem, which several programs have, and reading the problem that they change.
#pragma once

#include <optional>
#include <string>

#include "core/base/shared.hpp"
#include "core/io/readers/job_reader.hpp"
#include "core/plan/plan.hpp"
#include "core/plan/problem.hpp"

namespace CLI {
class App;
}

namespace dtfm::cli {

/// Adds --batch, which sets `batch`, in sequences.
void add_batch_option(CLI::App& app, std::optional<int>& batch);
void add_calibration_option(CLI::App& app, std::optional<std::string>& calibration);

/// Replaces the global batch of the job, if `batch` is given. Throws Error unless it is a multiple of every
/// micro-batch that the job permits.
void set_global_batch(const std::optional<int>& batch, Job& job);

/// If `batch` is given, throws Error unless the micro-batches of `plan`, which comes from `file`, add up to
/// it.
void check_batch_of_plan(const std::optional<int>& batch, const Plan& plan, const std::string& file);

/// Adds --model and --sequence.
void add_model_options(CLI::App& app, std::optional<std::string>& model, std::optional<int>& sequence);

/// Inputs of a problem other than its topology.
struct ProblemFiles {
  std::optional<std::string> job = {};          // file
  std::optional<std::string> model = {};        // config.json or preset, which replaces the model of the job
  std::optional<int> sequence = {};             // tokens per sequence; empty: that of the model
  std::optional<int> batch = {};                // value of --batch; empty: that of the job
  std::optional<std::string> calibration = {};  // file or name of a shipped one; empty: see calibration_for
};

struct ReadProblem {
  Problem problem;
  std::optional<CalibrationUncertainty> spread;  // of its constants, if known
};

/// The job of the files. Without one, it is `fallback`, or that of configs/pretraining.yaml if `model` is
/// given. Throws Error.
Job read_job(const ProblemFiles& files, const Job& fallback = io::default_job());

/// The job as `read_job` returns it. Throws Error.
ReadProblem read_problem(Shared<Topology> topology, const ProblemFiles& files, const Job& fallback);

}  // namespace dtfm::cli
