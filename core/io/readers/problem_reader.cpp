#include "core/io/readers/problem_reader.hpp"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/io/readers/calibration_reader.hpp"
#include "core/io/readers/job_reader.hpp"
#include "core/io/readers/roofline_reader.hpp"
#include "core/plan/settings.hpp"

namespace dtfm::io {

ReadProblem read_problem(Shared<Topology> topology, const ProblemFiles& files, const Job& fallback) {
  Job job = files.job ? read_job(*files.job) : fallback;
  set_global_batch(files.batch, job);
  FittedCalibration calibration = calibration_for(files.calibration, job, *topology);
  return {{std::move(topology), std::move(job), calibration.constants, built_in_roofline()},
          std::move(calibration.spread)};
}

void set_global_batch(const std::optional<int>& batch, Job& job) {
  if (!batch) return;
  const std::vector<SettingValue> sizes = listed_values(job, Setting::micro_batch);
  if (sizes.empty()) check_multiple(*batch, job.execution.micro_batch);
  for (const SettingValue& size : sizes) check_multiple(*batch, std::get<int>(size));
  job.training.global_batch = *batch;
}

void check_multiple(int batch, int micro_batch) {
  if (batch % micro_batch != 0)
    throw Error("--batch", fmt::format("{} is not a multiple of the micro-batch, {}", batch, micro_batch));
}

}  // namespace dtfm::io
