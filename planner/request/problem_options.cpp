#include "planner/request/problem_options.hpp"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/io/text/parse_number.hpp"
#include "core/base/error.hpp"
#include "core/base/kind_table.hpp"
#include "core/io/readers/calibration_reader.hpp"
#include "core/io/readers/job_reader.hpp"
#include "core/io/readers/roofline_reader.hpp"
#include "core/plan/settings.hpp"

namespace dtfm::request {
namespace {

void check_multiple(int batch, int micro_batch) {
  if (batch % micro_batch != 0)
    throw Error("--batch", fmt::format("{} is not a multiple of the micro-batch, {}", batch, micro_batch));
}

/// The precision among the settings, if it is valid.
std::optional<Precision> precision_of(const GivenSettings& settings) {
  for (const auto& [kind, text] : settings)
    if (kind == Setting::precision) return kind_named(precision_table(), text);
  return std::nullopt;
}

void replace_model(const TextInput& model, const std::optional<int>& sequence, Job& job) {
  if (model.value)
    io::replace_model(io::NamedFile{model.name, *model.value}, sequence, job);
  else
    io::replace_model(model.name, sequence, job);
}

}  // namespace

FittedCalibration read_calibration(const std::optional<TextInput>& given, const Job& job,
                                   const Topology& topology) {
  if (given && given->value) return io::parse_calibration(*given->value, given->name);
  return io::calibration_for(given ? std::optional(given->name) : std::nullopt, job, topology);
}

void add_batch_option(OptionList& list, std::optional<int>& batch) {
  add_option(
      list, "--batch", "N", "global batch in sequences [that of the job]",
      [&](const std::string& text) { batch = io::parse_whole_number("--batch", text, 1, 1'000'000'000); });
}

void add_model_options(OptionList& list, std::optional<TextInput>& model, std::optional<int>& sequence) {
  add_input(list, "--model", "FILE|PRESET",
            "model: Hugging Face's config.json, or a preset of configs/models.yaml [of the job]", model);
  add_option(list, "--sequence", "N", "tokens per sequence [of the job; config.json: up to 4,096]",
             [&](const std::string& text) {
               sequence = io::parse_whole_number("--sequence", text, 1, 1'000'000'000);
             });
}

void add_calibration_option(OptionList& list, std::optional<TextInput>& calibration) {
  add_input(list, "--calibration", "NAME|FILE",
            "constants: neutral, v100, or from dtfm-calibrate [of the job or topology, or neutral]",
            calibration);
}

void set_global_batch(const std::optional<int>& batch, Job& job) {
  if (!batch) return;
  const std::vector<SettingValue> sizes = listed_values(job, Setting::micro_batch);
  if (sizes.empty()) check_multiple(*batch, job.execution.micro_batch);
  for (const SettingValue& size : sizes) check_multiple(*batch, std::get<int>(size));
  job.training.global_batch = *batch;
}

void check_batch_of_plan(const std::optional<int>& batch, const Plan& plan, const std::string& file) {
  if (!batch) return;
  check_multiple(*batch, plan.execution.micro_batch);
  long long sum = 0;
  for (const Pipeline& pipeline : plan.pipelines) sum += pipeline.micro_batches;
  const int needed = *batch / plan.execution.micro_batch;
  if (sum != needed)
    throw Error("--batch", fmt::format("{} needs {} micro-batches of {}, but the pipelines of {} compute {}; "
                                       "plan with --batch {}, or remove micro_batches from the plan",
                                       *batch, needed, plan.execution.micro_batch, file, sum, *batch));
}

Job read_job(const ProblemInputs& inputs, const Job& fallback) {
  Job job = inputs.job ? read(*inputs.job) : inputs.model ? io::pretraining_job() : fallback;
  // A model's activations have the size of the precision.
  if (inputs.model) job.training.precision = precision_of(inputs.settings).value_or(job.training.precision);
  if (inputs.model)
    replace_model(*inputs.model, inputs.sequence, job);
  else if (inputs.sequence)
    io::set_sequence("--sequence", *inputs.sequence, job);
  job = with_settings(job, inputs.settings, inputs.batch);
  set_global_batch(inputs.batch, job);
  return job;
}

ReadProblem read_problem(Shared<Topology> topology, const ProblemInputs& inputs, const Job& fallback) {
  Job job = read_job(inputs, fallback);
  FittedCalibration calibration = read_calibration(inputs.calibration, job, *topology);
  return {{std::move(topology), std::move(job), calibration.constants, io::built_in_roofline()},
          std::move(calibration.spread)};
}

}  // namespace dtfm::request
