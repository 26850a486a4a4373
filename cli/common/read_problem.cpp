#include "cli/common/read_problem.hpp"

#include <utility>

#include "cli/common/batch_option.hpp"
#include "core/io/readers/calibration_reader.hpp"
#include "core/io/readers/job_reader.hpp"
#include "core/io/readers/roofline_reader.hpp"

namespace dtfm::cli {

ReadProblem read_problem(Shared<Topology> topology, const ProblemFiles& files, const Job& fallback) {
  Job job = files.job ? io::read_job(*files.job) : fallback;
  set_global_batch(files.batch, job);
  FittedCalibration calibration = io::calibration_for(files.calibration, job, *topology);
  return {{std::move(topology), std::move(job), calibration.constants, io::built_in_roofline()},
          std::move(calibration.spread)};
}

}  // namespace dtfm::cli
