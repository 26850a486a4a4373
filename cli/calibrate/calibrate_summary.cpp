#include "cli/calibrate/calibrate_summary.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/common/text_formatting.hpp"
#include "core/plan/shards.hpp"
#include "core/io/text/units.hpp"
#include "planner/io/calibration_document.hpp"
#include "simulator/calibration/prediction.hpp"

namespace dtfm::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

struct Summary {
  const std::vector<sim::MeasuredRun>& runs;
  const Calibration& prior;
  const sim::CalibrationFit& fit;
  const api::MeanErrors& errors;
};

std::size_t count_topologies(const Summary& s) {
  std::set<const Topology*> all;
  for (const sim::MeasuredRun& run : s.runs) all.insert(run.work->topology.get());
  std::set<std::string> different;
  for (const Topology* topology : all) different.insert(topology->fingerprint());
  return different.size();
}

/// The name of the topology of all runs, or the number of their topologies.
std::string format_topologies(const Summary& s) {
  const std::size_t count = count_topologies(s);
  return count == 1 ? s.runs.front().network : fmt::format("{} topologies", count);
}

std::string format_value(const CalibrationConstant& constant, double value) {
  if (constant.kind != CalibrationConstant::Kind::seconds) return fmt::format("{:.4g}", value);
  return value == 0 ? "0 s" : io::format_seconds(Seconds(value));
}

std::string constants_table(const Summary& s) {
  Rows rows = {
      {"constant", "fitted", fmt::format("{:.0f} % interval", 100 * sim::confidence_level), "prior", ""}};
  for (std::size_t i = 0; i < calibration_constants.size(); ++i) {
    const CalibrationConstant& it = calibration_constants[i];
    const sim::ConstantInterval& interval = s.fit.intervals[i];
    rows.push_back({std::string(it.name), format_value(it, s.fit.constants.*it.value),
                    format_value(it, interval.low) + " … " + format_value(it, interval.high),
                    format_value(it, s.prior.*it.value),
                    interval.is_identified ? "" : "hardly identified by these runs"});
  }
  if (const auto& interval = s.fit.process_memory)
    rows.push_back(
        {"process_memory", io::format_bytes(Bytes(s.fit.constants.process_memory_bytes)),
         io::format_bytes(Bytes(interval->first)) + " … " + io::format_bytes(Bytes(interval->second)),
         io::format_bytes(Bytes(s.prior.process_memory_bytes)), ""});
  for (auto& row : rows)
    if (row.back().empty()) row.pop_back();
  return table(rows);
}

std::string format_percent_error(double simulated_s, double seconds) {
  return fmt::format("{:+.1f} %", 100 * (simulated_s / seconds - 1));
}

std::string runs_table(const Summary& s) {
  constexpr std::size_t longest_name = 40;
  Rows rows = {{"line", "run", "measured", "simulated", "error", "left out"}};
  for (std::size_t i = 0; i < s.runs.size(); ++i) {
    const sim::MeasuredRun& run = s.runs[i];
    const sim::RunFit& fit = s.fit.runs[i];
    rows.push_back(
        {fmt::format("{}", run.line), truncate_text(run.name, longest_name),
         fmt::format("{:.4g} s", run.seconds), fmt::format("{:.4g} s", fit.simulated_s),
         format_percent_error(fit.simulated_s, run.seconds),
         fit.is_outlier ? "outlier: not fitted" : format_percent_error(fit.leave_one_out_s, run.seconds)});
  }
  return table(rows);
}

/// The runs with a measured peak; empty if there are none.
std::string memory_table(const Summary& s) {
  Rows rows = {{"line", "peak memory", "predicted", "error"}};
  for (std::size_t i = 0; i < s.runs.size(); ++i) {
    const double peak = s.runs[i].peak_memory_bytes, predicted = s.fit.runs[i].peak_memory_bytes;
    if (peak == 0) continue;
    rows.push_back({fmt::format("{}", s.runs[i].line), io::format_bytes(Bytes(peak)),
                    io::format_bytes(Bytes(predicted)), format_percent_error(predicted, peak)});
  }
  return rows.size() == 1 ? "" : table(rows);
}

/// For each constant, the runs whose simulated time it changes by at least `min_effect`, and by how much.
std::string effects_table(const Summary& s) {
  constexpr double min_effect = 0.05;
  Rows rows;
  for (std::size_t i = 0; i < calibration_constants.size(); ++i) {
    std::vector<std::size_t> changed;
    double low = std::numeric_limits<double>::infinity(), high = -low;
    for (std::size_t run = 0; run < s.runs.size(); ++run) {
      const double effect = s.fit.runs[run].effects[i];
      if (std::abs(effect) < min_effect) continue;
      changed.push_back(run);
      low = std::min(low, effect);
      high = std::max(high, effect);
    }
    if (changed.empty()) continue;
    const std::string from = fmt::format("{:+.0f}", 100 * low), to = fmt::format("{:+.0f}", 100 * high);
    rows.push_back({"  " + std::string(calibration_constants[i].name),
                    from == to ? from + " %" : fmt::format("{} … {} %", from, to),
                    "lines " + io::format_lines(s.runs, changed)});
  }
  const std::string heading = fmt::format(
      "Runs whose simulated time changes by {:.0f} % or more when a constant moves from its prior to its "
      "fitted value:",
      100 * min_effect);
  return rows.empty() ? "" : heading + "\n" + table(rows, false);
}

/// Formats the degrees of a plan, which show what unexplained runs have in common.
std::string format_shape(const sim::Workload& work) {
  std::size_t stages = 0;
  for (const Pipeline& pipeline : work.plan.pipelines) stages = std::max(stages, pipeline.stages.size());
  const std::vector<int> tensor = tensor_degrees(work.plan);
  const bool is_whole = tensor != std::vector{1} && !work.job.parallelism.sequence_parallel;
  return fmt::format("tensor {}{}, pipeline {}, data {}, micro-batch {}", fmt::join(tensor, " and "),
                     is_whole ? " without sequence parallelism" : "", stages, work.plan.pipelines.size(),
                     work.plan.execution.micro_batch);
}

/// The runs that the fit does not explain.
std::string unexplained_runs(const Summary& s) {
  const bool names_topologies = count_topologies(s) > 1;
  Rows rows;
  for (std::size_t i = 0; i < s.runs.size(); ++i) {
    const double error = s.fit.runs[i].simulated_s / s.runs[i].seconds - 1;
    if (std::abs(error) < sim::assumed_model_error && !s.fit.runs[i].is_outlier) continue;
    rows.push_back({fmt::format("  line {}", s.runs[i].line), fmt::format("{:+.0f} %", 100 * error),
                    format_shape(*s.runs[i].work) + (names_topologies ? ", on " + s.runs[i].network : "") +
                        (s.fit.runs[i].is_outlier ? "; not fitted" : "")});
  }
  if (rows.empty()) return "";
  return fmt::format(
      "Outliers, and runs with an error of {:.0f} % or more. A property that they share may be something\n"
      "that the simulator does not model; the intervals do not cover it:\n{}",
      100 * sim::assumed_model_error, table(rows, false));
}

std::size_t outliers(const sim::CalibrationFit& fit) {
  return static_cast<std::size_t>(
      std::count_if(fit.runs.begin(), fit.runs.end(), [](const sim::RunFit& run) { return run.is_outlier; }));
}

std::string format_errors(const Summary& s) {
  const api::MeanErrors& mean = s.errors;
  return fmt::format(
      "Mean absolute error {:.1f} %; {:.1f} % when each run is left out of the fit; {:.1f} % with the "
      "constants of the prior.\n"
      "Residual standard deviation {:.1f} % ({:.1f} degrees of freedom).\n",
      100 * mean.fitted, 100 * mean.leave_one_out, 100 * mean.prior, 100 * s.fit.residual,
      s.fit.degrees_of_freedom);
}

}  // namespace

std::string format_summary(const api::CalibrateRequest& request, const api::CalibrateResult& result) {
  const Summary s{request.runs, request.prior, result.fit, result.errors};
  const std::size_t left_out = outliers(s.fit);
  const std::string omitted =
      left_out == 0
          ? ""
          : fmt::format(", {} not fitted", format_count(static_cast<long long>(left_out), "outlier"));
  const std::string heading =
      fmt::format("{}: {}{}\n{}", format_topologies(s),
                  format_count(static_cast<long long>(s.runs.size()), "measured iteration"), omitted,
                  format_remarks("note", io::calibration_notes(request, result)));
  return join_blocks({heading, constants_table(s), runs_table(s), memory_table(s), effects_table(s),
                      unexplained_runs(s), format_errors(s)});
}

}  // namespace dtfm::cli
