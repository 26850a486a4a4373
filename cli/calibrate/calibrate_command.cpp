// The dtfm-calibrate command: reads measured iterations and fits the constants of the simulator.
#include <array>
#include <memory>

#include "cli/calibrate/calibrate_options.hpp"
#include "cli/calibrate/calibrate_summary.hpp"
#include "cli/common/interrupt.hpp"
#include "cli/common/main_guard.hpp"
#include "cli/common/output_check.hpp"
#include "cli/common/progress.hpp"
#include "cli/common/write_output.hpp"
#include "core/io/readers/calibration_reader.hpp"
#include "core/io/readers/job_reader.hpp"
#include "core/io/readers/roofline_reader.hpp"
#include "core/io/readers/topology_reader.hpp"
#include "core/io/text/atomic_file.hpp"
#include "simulator/io/runs_reader.hpp"

namespace dtfm::cli {
namespace {

std::vector<sim::MeasuredRun> load_runs(const CalibrateOptions& options, const std::optional<Job>& job,
                                        const std::shared_ptr<const Topology>& topology) {
  const Roofline roofline = io::built_in_roofline();
  std::vector<sim::MeasuredRun> runs = io::read_runs(options.runs, {topology, job, roofline});
  if (runs.size() < sim::min_runs)
    throw Error(options.runs, fmt::format("has {} runs; fitting the constants requires at least {}",
                                          runs.size(), sim::min_runs));
  return runs;
}

sim::CalibrationFit fit_constants(const CalibrateOptions& options, const std::vector<sim::MeasuredRun>& runs,
                                  const Calibration& prior) {
  ProgressPrinter printer(options.quiet, "dtfm-calibrate");
  return sim::calibrate(
      runs, {prior, options.threads, [&](const Progress& progress) { printer.show(progress); }});
}

/// Writes the file before printing: it must exist even if stdout is closed.
void write_output(const CalibrateOptions& options, const CalibrateSummary& summary) {
  write_output(options.output, options.format, calibration_file_json(summary), format_summary(summary),
               options.color);
}

}  // namespace

int run_calibrate_command(const CalibrateOptions& options) {
  const InterruptWatch watch("a calibration");
  check_outputs(std::array{options.topology, options.runs, options.job.value_or("")},
                std::array{options.output.value_or("")});
  const io::ReadLog read;
  const auto topology = std::make_shared<const Topology>(io::read_topology(options.topology));
  std::optional<Job> job;
  if (options.job) job = io::read_job(*options.job);
  const std::vector<sim::MeasuredRun> runs = load_runs(options, job, topology);
  check_not_read(read, std::array{options.output.value_or("")});
  const Calibration prior = io::calibration_for({}, job.value_or(Job()), *topology).constants;
  const sim::CalibrationFit fit = fit_constants(options, runs, prior);
  write_output(options, {*topology, runs, fit, prior, sim::simulate_seconds(runs, prior, options.threads)});
  return exit_code::done;
}

}  // namespace dtfm::cli
