// Options of the problem, which several programs have, and reading the problem that they change.
#pragma once

#include <optional>
#include <string>

#include "core/base/shared.hpp"
#include "core/io/readers/job_reader.hpp"
#include "core/plan/plan.hpp"
#include "core/plan/problem.hpp"
#include "planner/request/option_list.hpp"
#include "planner/request/setting_options.hpp"

namespace dtfm::request {

/// Adds --batch, which sets `batch`, in sequences.
void add_batch_option(OptionList& list, std::optional<int>& batch);
void add_calibration_option(OptionList& list, std::optional<TextInput>& calibration);

/// Replaces the global batch of the job, if `batch` is given. Throws Error unless it is a multiple of every
/// micro-batch that the job permits.
void set_global_batch(const std::optional<int>& batch, Job& job);

/// If `batch` is given, throws Error unless the micro-batches of `plan`, which comes from `file`, add up to
/// it.
void check_batch_of_plan(const std::optional<int>& batch, const Plan& plan, const std::string& file);

/// Adds --model and --sequence.
void add_model_options(OptionList& list, std::optional<TextInput>& model, std::optional<int>& sequence);

/// Inputs of a problem other than its topology.
struct ProblemInputs {
  std::optional<JobInput> job = {};           // empty: see read_job
  std::optional<TextInput> model = {};        // config.json or preset, which replaces the model of the job
  std::optional<int> sequence = {};           // tokens per sequence; empty: that of the model
  std::optional<int> batch = {};              // sequences; empty: that of the job
  GivenSettings settings = {};                // that replace those of the job
  std::optional<TextInput> calibration = {};  // file or name of a shipped one; empty: see calibration_for

  /// Whether the user gives the job, or its model.
  bool gives_job() const { return job || model; }
};

/// The calibration that is given, or else that of calibration_for. Throws Error.
FittedCalibration read_calibration(const std::optional<TextInput>& given, const Job& job,
                                   const Topology& topology);

struct ReadProblem {
  Problem problem;
  std::optional<CalibrationUncertainty> spread;  // of its constants, if known
};

/// The job of the inputs. Without one, it is `fallback`, or that of configs/pretraining.yaml if `model` is
/// given. Throws Error.
Job read_job(const ProblemInputs& inputs, const Job& fallback);

/// The job as `read_job` returns it. Throws Error.
ReadProblem read_problem(Shared<Topology> topology, const ProblemInputs& inputs, const Job& fallback);

}  // namespace dtfm::request
