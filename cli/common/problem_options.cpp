#include "cli/common/problem_options.hpp"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/common/command_line.hpp"
#include "cli/common/parse_number.hpp"
#include "core/base/error.hpp"
#include "core/io/readers/calibration_reader.hpp"
#include "core/io/readers/job_reader.hpp"
#include "core/io/readers/roofline_reader.hpp"
#include "core/plan/settings.hpp"

namespace dtfm::cli {
namespace {

void check_multiple(int batch, int micro_batch) {
  if (batch % micro_batch != 0)
    throw Error("--batch", fmt::format("{} is not a multiple of the micro-batch, {}", batch, micro_batch));
}

}  // namespace

void add_batch_option(CLI::App& app, std::optional<int>& batch) {
  add_option(app, "--batch", "N", "global batch in sequences [that of the job]",
             [&](const std::string& text) { batch = parse_whole_number("--batch", text, 1, 1'000'000'000); });
}

void add_model_options(CLI::App& app, std::optional<std::string>& model, std::optional<int>& sequence) {
  add_option(app, "--model", "FILE|PRESET",
             "model: Hugging Face's config.json, or a preset of configs/models.yaml [of the job]",
             [&](const std::string& text) { model = text; });
  add_option(
      app, "--sequence", "N", "tokens per sequence [of the job; config.json: up to 4,096]",
      [&](const std::string& text) { sequence = parse_whole_number("--sequence", text, 1, 1'000'000'000); });
}

void add_calibration_option(CLI::App& app, std::optional<std::string>& calibration) {
  add_option(app, "--calibration", "NAME|FILE",
             "constants: neutral, v100, or from dtfm-calibrate [of the job or topology, or neutral]",
             [&calibration](const std::string& text) { calibration = text; });
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

Job read_job(const ProblemFiles& files, const Job& fallback) {
  Job job = files.job ? io::read_job(*files.job) : files.model ? io::pretraining_job() : fallback;
  if (files.model)
    io::replace_model(*files.model, files.sequence, job);
  else if (files.sequence)
    io::set_sequence("--sequence", *files.sequence, job);
  set_global_batch(files.batch, job);
  return job;
}

ReadProblem read_problem(Shared<Topology> topology, const ProblemFiles& files, const Job& fallback) {
  Job job = read_job(files, fallback);
  FittedCalibration calibration = io::calibration_for(files.calibration, job, *topology);
  return {{std::move(topology), std::move(job), calibration.constants, io::built_in_roofline()},
          std::move(calibration.spread)};
}

}  // namespace dtfm::cli
