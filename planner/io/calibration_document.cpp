#include "planner/io/calibration_document.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/io/readers/calibration_reader.hpp"
#include "planner/io/plan_notes.hpp"
#include "simulator/calibration/prediction.hpp"

namespace dtfm::io {
namespace {

using nlohmann::ordered_json;

/// The values used for settings that jobs leave open and neither rows nor plans decide; one note for the
/// lines of each combination.
std::vector<std::string> notes_on_open_settings(const std::vector<sim::MeasuredRun>& runs) {
  std::map<std::string, std::vector<std::size_t>> lines_of;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const sim::Workload& work = *runs[i].work;
    const std::string used = format_undecided(work.plan.execution, work.undecided);
    if (!used.empty())
      lines_of[fmt::format("job {} leaves open; used: {}", work.job.name, used)].push_back(i);
  }
  std::vector<std::string> notes;
  for (const auto& [what, lines] : lines_of)
    notes.push_back(fmt::format("lines {}: neither the run nor its plan decides what {}",
                                format_lines(runs, lines), what));
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

std::vector<std::string> calibration_notes(const api::CalibrateRequest& request,
                                           const api::CalibrateResult& result) {
  const auto& runs = request.runs;
  const sim::CalibrationFit& fit = result.fit;
  constexpr double max_residual = 0.25;  // three times the residual of the published runs
  std::vector<std::string> notes = notes_on_open_settings(runs);
  const auto has_peak = [](const sim::MeasuredRun& run) { return run.peak_memory_bytes > 0; };
  if (std::count_if(runs.begin(), runs.end(), has_peak) == 1)
    notes.emplace_back("process_memory is not fitted, which requires the peak memory of two or more runs");
  constexpr double max_memory_error = 0.2;  // twice the largest one of the published runs
  std::vector<std::size_t> off;
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (has_peak(runs[i]) &&
        std::abs(fit.runs[i].peak_memory_bytes / runs[i].peak_memory_bytes - 1) > max_memory_error)
      off.push_back(i);
  if (!off.empty())
    notes.push_back(
        fmt::format("the predicted peak memory of lines {} is more than {:.0f} % off; check that it is that "
                    "of the device that needs most, and that the jobs are those of the runs",
                    format_lines(runs, off), 100 * max_memory_error));
  if (fit.residual <= max_residual) return notes;
  notes.push_back(fmt::format(
      "no constants explain these runs: the residual is {:.0f} %; check that times are in seconds, and that "
      "topology, job and plans are those of the runs",
      100 * fit.residual));
  return notes;
}

std::string format_lines(std::span<const sim::MeasuredRun> runs, const std::vector<std::size_t>& chosen) {
  std::vector<std::string> ranges;
  for (std::size_t first = 0; first < chosen.size();) {
    std::size_t last = first;
    while (last + 1 < chosen.size() && chosen[last + 1] == chosen[last] + 1) ++last;
    const std::size_t from = runs[chosen[first]].line, to = runs[chosen[last]].line;
    ranges.push_back(from == to ? fmt::format("{}", from) : fmt::format("{}-{}", from, to));
    first = last + 1;
  }
  return fmt::format("{}", fmt::join(ranges, ", "));
}

ordered_json calibration_document(const api::CalibrateRequest& request, const api::CalibrateResult& result) {
  const auto& measured = request.runs;
  const sim::CalibrationFit& fit = result.fit;
  ordered_json json = calibration_json({fit.constants, fit.spread});
  ordered_json constants;
  for (std::size_t i = 0; i < calibration_constants.size(); ++i)
    constants[std::string(calibration_constants[i].name)] = {
        {"low", fit.intervals[i].low},
        {"high", fit.intervals[i].high},
        {"is_identified", fit.intervals[i].is_identified}};
  ordered_json runs = ordered_json::array();
  for (std::size_t i = 0; i < measured.size(); ++i) runs.push_back(run_json(measured[i], fit.runs[i]));
  if (const auto& interval = fit.process_memory)
    constants["process_memory"] = {{"low", interval->first}, {"high", interval->second}};
  json["fit"] = {
      {"topology", {{"name", request.topology->name}, {"fingerprint", request.topology->fingerprint()}}},
      {"interval_level", sim::confidence_level},
      {"intervals", std::move(constants)},
      {"mean_absolute_error",
       {{"fitted", result.errors.fitted},
        {"leave_one_out", result.errors.leave_one_out},
        {"prior", result.errors.prior}}},
      {"notes", calibration_notes(request, result)},
      {"runs", std::move(runs)}};
  json["program"] = DTFM_VERSION;
  return json;
}

}  // namespace dtfm::io
