#include "cli/calibrate/calibrate_summary.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/common/text_formatting.hpp"
#include "core/plan/shards.hpp"
#include "core/io/readers/calibration_reader.hpp"
#include "core/io/text/json_format.hpp"
#include "core/io/text/units.hpp"
#include "planner/io/plan_notes.hpp"
#include "simulator/calibration/prediction.hpp"

namespace dtfm::cli {
namespace {

using nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

/// Mean absolute relative errors of simulated against measured times, over all runs but outliers.
struct MeanErrors {
  double fitted = 0, leave_one_out = 0, prior = 0;
};

MeanErrors mean_errors(const CalibrateSummary& s) {
  MeanErrors mean;
  double count = 0;
  for (std::size_t i = 0; i < s.runs.size(); ++i) {
    if (s.fit.runs[i].is_outlier) continue;
    const auto error = [&](double simulated_s) { return std::abs(simulated_s / s.runs[i].seconds - 1); };
    mean.fitted += error(s.fit.runs[i].simulated_s);
    mean.leave_one_out += error(s.fit.runs[i].leave_one_out_s);
    mean.prior += error(s.prior_s[i]);
    ++count;
  }
  return {mean.fitted / count, mean.leave_one_out / count, mean.prior / count};
}

/// Lines of the table as ranges of consecutive runs: "2-5, 9".
std::string format_lines(const CalibrateSummary& s, const std::vector<std::size_t>& runs) {
  std::vector<std::string> ranges;
  for (std::size_t first = 0; first < runs.size();) {
    std::size_t last = first;
    while (last + 1 < runs.size() && runs[last + 1] == runs[last] + 1) ++last;
    const std::size_t from = s.runs[runs[first]].line, to = s.runs[runs[last]].line;
    ranges.push_back(from == to ? fmt::format("{}", from) : fmt::format("{}-{}", from, to));
    first = last + 1;
  }
  return fmt::format("{}", fmt::join(ranges, ", "));
}

std::size_t count_topologies(const CalibrateSummary& s) {
  std::set<const Topology*> all;
  for (const sim::MeasuredRun& run : s.runs) all.insert(run.work->topology.get());
  std::set<std::string> different;
  for (const Topology* topology : all) different.insert(topology->fingerprint());
  return different.size();
}

/// The name of the topology of all runs, or the number of their topologies.
std::string format_topologies(const CalibrateSummary& s) {
  const std::size_t count = count_topologies(s);
  return count == 1 ? s.runs.front().network : fmt::format("{} topologies", count);
}

std::string format_value(const CalibrationConstant& constant, double value) {
  if (constant.kind != CalibrationConstant::Kind::seconds) return fmt::format("{:.4g}", value);
  return value == 0 ? "0 s" : io::format_seconds(Seconds(value));
}

std::string constants_table(const CalibrateSummary& s) {
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

std::string runs_table(const CalibrateSummary& s) {
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
std::string memory_table(const CalibrateSummary& s) {
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
std::string effects_table(const CalibrateSummary& s) {
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
                    "lines " + format_lines(s, changed)});
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
std::string unexplained_runs(const CalibrateSummary& s) {
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

std::string format_errors(const CalibrateSummary& s) {
  const MeanErrors mean = mean_errors(s);
  return fmt::format(
      "Mean absolute error {:.1f} %; {:.1f} % when each run is left out of the fit; {:.1f} % with the "
      "constants of the prior.\n"
      "Residual standard deviation {:.1f} % ({:.1f} degrees of freedom).\n",
      100 * mean.fitted, 100 * mean.leave_one_out, 100 * mean.prior, 100 * s.fit.residual,
      s.fit.degrees_of_freedom);
}

/// The values used for settings that jobs leave open and neither rows nor plans decide; one note for the
/// lines of each combination.
std::vector<std::string> undecided_notes(const CalibrateSummary& s) {
  std::map<std::string, std::vector<std::size_t>> runs_of;
  for (std::size_t i = 0; i < s.runs.size(); ++i) {
    const sim::Workload& work = *s.runs[i].work;
    const std::string used = io::format_undecided(work.plan.execution, work.undecided);
    if (!used.empty()) runs_of[fmt::format("job {} leaves open; used: {}", work.job.name, used)].push_back(i);
  }
  std::vector<std::string> notes;
  for (const auto& [what, runs] : runs_of)
    notes.push_back(
        fmt::format("lines {}: neither the run nor its plan decides what {}", format_lines(s, runs), what));
  return notes;
}

/// Notes to print before the numbers.
std::vector<std::string> calibration_notes(const CalibrateSummary& s) {
  constexpr double max_residual = 0.25;  // three times the residual of the published runs
  std::vector<std::string> notes = undecided_notes(s);
  const auto has_peak = [](const sim::MeasuredRun& run) { return run.peak_memory_bytes > 0; };
  if (std::count_if(s.runs.begin(), s.runs.end(), has_peak) == 1)
    notes.emplace_back("process_memory is not fitted, which requires the peak memory of two or more runs");
  constexpr double max_memory_error = 0.2;  // twice the largest one of the published runs
  std::vector<std::size_t> off;
  for (std::size_t i = 0; i < s.runs.size(); ++i)
    if (has_peak(s.runs[i]) &&
        std::abs(s.fit.runs[i].peak_memory_bytes / s.runs[i].peak_memory_bytes - 1) > max_memory_error)
      off.push_back(i);
  if (!off.empty())
    notes.push_back(
        fmt::format("the predicted peak memory of lines {} is more than {:.0f} % off; check that it is that "
                    "of the device that needs most, and that the jobs are those of the runs",
                    format_lines(s, off), 100 * max_memory_error));
  if (s.fit.residual <= max_residual) return notes;
  notes.push_back(fmt::format(
      "no constants explain these runs: the residual is {:.0f} %; check that times are in seconds, and that "
      "topology, job and plans are those of the runs",
      100 * s.fit.residual));
  return notes;
}

ordered_json run_json(const sim::MeasuredRun& run, const sim::RunFit& fit) {
  ordered_json json = {
      {"line", run.line},
      {"run", run.name},
      {"topology", run.network},
      {"measured_s", run.seconds},
      {"simulated_s", fit.simulated_s},
      {"leave_one_out_s", fit.is_outlier ? ordered_json(nullptr) : ordered_json(fit.leave_one_out_s)},
      {"outlier", fit.is_outlier}};
  if (run.peak_memory_bytes > 0) {
    json["measured_peak_memory_bytes"] = run.peak_memory_bytes;
    json["predicted_peak_memory_bytes"] = fit.peak_memory_bytes;
  }
  ordered_json effects;
  for (std::size_t i = 0; i < calibration_constants.size(); ++i)
    effects[std::string(calibration_constants[i].name)] = fit.effects[i];
  json["effects"] = std::move(effects);
  return json;
}

}  // namespace

std::string format_summary(const CalibrateSummary& s) {
  const std::size_t left_out = outliers(s.fit);
  const std::string omitted =
      left_out == 0
          ? ""
          : fmt::format(", {} not fitted", format_count(static_cast<long long>(left_out), "outlier"));
  const std::string heading =
      fmt::format("{}: {}{}\n{}", format_topologies(s),
                  format_count(static_cast<long long>(s.runs.size()), "measured iteration"), omitted,
                  format_remarks("note", calibration_notes(s)));
  return join_blocks({heading, constants_table(s), runs_table(s), memory_table(s), effects_table(s),
                      unexplained_runs(s), format_errors(s)});
}

std::string calibration_file_json(const CalibrateSummary& s) {
  ordered_json json = io::calibration_json({s.fit.constants, s.fit.spread});
  ordered_json constants;
  for (std::size_t i = 0; i < calibration_constants.size(); ++i)
    constants[std::string(calibration_constants[i].name)] = {
        {"low", s.fit.intervals[i].low},
        {"high", s.fit.intervals[i].high},
        {"is_identified", s.fit.intervals[i].is_identified}};
  ordered_json runs = ordered_json::array();
  for (std::size_t i = 0; i < s.runs.size(); ++i) runs.push_back(run_json(s.runs[i], s.fit.runs[i]));
  if (const auto& interval = s.fit.process_memory)
    constants["process_memory"] = {{"low", interval->first}, {"high", interval->second}};
  const MeanErrors mean = mean_errors(s);
  json["fit"] = {{"topology", {{"name", s.topology.name}, {"fingerprint", s.topology.fingerprint()}}},
                 {"interval_level", sim::confidence_level},
                 {"intervals", std::move(constants)},
                 {"mean_absolute_error",
                  {{"fitted", mean.fitted}, {"leave_one_out", mean.leave_one_out}, {"prior", mean.prior}}},
                 {"notes", calibration_notes(s)},
                 {"runs", std::move(runs)}};
  json["program"] = DTFM_VERSION;
  return io::format_json(json);
}

}  // namespace dtfm::cli
