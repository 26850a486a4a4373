#include "cli/calibrate/calibrate_summary.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/common/text_formatting.hpp"
#include "planner/io/readers/calibration_reader.hpp"
#include "planner/io/text/json_format.hpp"
#include "planner/io/text/units.hpp"
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

/// Notes to print before the numbers.
std::vector<std::string> calibration_notes(const CalibrateSummary& s) {
  constexpr double max_residual = 0.25;  // three times the residual of the published runs
  if (s.fit.residual <= max_residual) return {};
  return {fmt::format(
      "no constants explain these runs: the residual is {:.0f} %; check that times are in seconds, and that "
      "topology, job and plans are those of the runs",
      100 * s.fit.residual)};
}

ordered_json run_json(const sim::MeasuredRun& run, const sim::RunFit& fit) {
  return {{"line", run.line},
          {"run", run.name},
          {"measured_s", run.seconds},
          {"simulated_s", fit.simulated_s},
          {"leave_one_out_s", fit.is_outlier ? ordered_json(nullptr) : ordered_json(fit.leave_one_out_s)},
          {"outlier", fit.is_outlier}};
}

}  // namespace

std::string format_summary(const CalibrateSummary& s) {
  const std::size_t left_out = outliers(s.fit);
  const std::string omitted =
      left_out == 0
          ? ""
          : fmt::format(", {} not fitted", format_count(static_cast<long long>(left_out), "outlier"));
  return fmt::format("{}: {}{}\n{}\n{}\n{}\n{}", s.topology.name,
                     format_count(static_cast<long long>(s.runs.size()), "measured iteration"), omitted,
                     format_remarks("note", calibration_notes(s)), constants_table(s), runs_table(s),
                     format_errors(s));
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
