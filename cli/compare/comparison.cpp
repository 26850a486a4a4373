#include "cli/compare/comparison.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/common/text_formatting.hpp"
#include "cli/common/topology_formatting.hpp"
#include "cli/common/verification_formatting.hpp"
#include "planner/io/comparison_document.hpp"
#include "planner/io/plan_notes.hpp"

namespace dtfm::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

/// Says that only plans have the numbers of stages and replicas that the job fixes; empty if it fixes none.
std::string format_fixed_shape(const Job& job) {
  if (!job.parallelism.pipeline && !job.parallelism.data) return "";
  return "planned has the numbers of stages and replicas of the job; the other schemes choose their own\n";
}

/// Names the scheme to whose time the others are compared; empty if there is none.
std::string format_reference(const api::Comparison& comparison) {
  if (comparison.schemes.empty() || comparison.schemes.front().runs.empty()) return "";
  return fmt::format("time: relative to {}\n", comparison.schemes.front().name);
}

std::string scenario_table(const Problem& problem, const api::Comparison& comparison, std::size_t scenario) {
  const std::string_view input = name_of(model_input(problem.job.model));
  Rows rows = {
      {"scheme", "s/batch", fmt::format("{}/s", input), "time", fmt::format("USD/M {}", input), "layout"}};
  for (const api::ComparedScheme* it : comparison.fastest_first(scenario)) {
    const std::string why =
        it->runs.empty() ? io::format_no_layout(it->chosen, problem) : it->runs[scenario].failure;
    if (it->runs.empty() || !why.empty()) {
      rows.push_back({it->name, "–", "–", "–", "–", (it->runs.empty() ? "none: " : "stopped: ") + why});
      continue;
    }
    const api::ComparedRun& run = it->runs[scenario];
    const double ratio = run.time_ratio;
    const auto& cost = run.cost_per_million_tokens;
    rows.push_back({it->name, fmt::format("{:.6g}", run.seconds_per_batch),
                    fmt::format("{:.6g}", run.tokens_per_s),
                    ratio <= 0     ? "–"
                    : ratio < 0.01 ? fmt::format("{:.2g} ×", ratio)
                                   : fmt::format("{:.2f} ×", ratio),
                    cost ? fmt::format("{:.4g}", *cost) : "–",
                    api::format_shape(problem, it->chosen) +
                        (run.report.stopped.empty() ? "" : "; stopped: " + run.report.stopped)});
  }
  return table(rows, true, unlimited_width);
}

/// The simulated time of the run, or its number of iterations.
std::string format_measure(const sim::SimReport& report, bool by_time) {
  return by_time ? fmt::format("{:.6g} s", report.length_s)
                 : with_thousands(static_cast<long long>(report.iterations.size()));
}

/// Says over how many iterations, or how much time, each rate was measured; empty if all runs have the same
/// length.
std::string format_measured(const api::CompareRequest& request, const api::Comparison& comparison,
                            std::size_t scenario) {
  const bool by_time = request.scenarios[scenario].horizon_s.has_value();
  std::vector<std::pair<std::string, std::vector<std::string>>> measures;  // length, names of schemes
  for (const api::ComparedScheme& it : comparison.schemes) {
    if (it.runs.empty() || it.runs[scenario].tokens_per_s <= 0) continue;
    const std::string own = format_measure(it.runs[scenario].report, by_time);
    auto place =
        std::find_if(measures.begin(), measures.end(), [&](const auto& other) { return other.first == own; });
    if (place == measures.end()) place = measures.insert(place, {own, {}});
    place->second.push_back(it.name);
  }
  if (measures.size() < 2) return "";
  std::stable_sort(measures.begin(), measures.end(),
                   [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  std::string text = fmt::format("rates are over {}{}", measures.front().first, by_time ? "" : " iterations");
  for (std::size_t i = 1; i < measures.size(); ++i)
    text += fmt::format("; of {} over {}", fmt::join(measures[i].second, ", "), measures[i].first);
  return text + "\n";
}

/// One line on verification for each scheme that verifies; empty if there is none.
std::string format_scenario_verification(const api::Comparison& comparison, std::size_t scenario) {
  std::string text;
  for (const api::ComparedScheme& it : comparison.schemes)
    if (!it.runs.empty() && it.runs[scenario].report.verification)
      text += fmt::format("{}: {}\n", it.name, format_verification(it.runs[scenario].report));
  return text;
}

/// Of `planned`, over every scheme that differs from it only by the three factors; empty if there is none.
std::string format_speedups(const api::Comparison& comparison) {
  if (comparison.speedups.empty()) return "";
  Rows rows = {{"speed-up over", "total", "placement", "schedule", "collective"}};
  for (const api::Speedup& it : comparison.speedups) {
    rows.push_back({it.scheme});
    for (const double factor : {it.total, it.placement, it.schedule, it.collective})
      rows.back().push_back(fmt::format("{:.2f} ×", factor));
  }
  return fmt::format(
      "\n{}total = placement × schedule × collective: planning for the scheme's schedule and collective,\n"
      "then changing to the schedule of planned, then to its collective (with its sharding, and the depth "
      "that this sharding requires).\n",
      table(rows));
}

std::string format_assumptions(const api::Comparison& comparison) {
  Rows rows;
  for (const api::ComparedScheme& it : comparison.schemes)
    rows.push_back({it.name, fmt::format("{}; {}", it.what, it.assumes)});
  return align_columns(rows);
}

}  // namespace

std::string format_summary(const api::CompareRequest& request, const api::Comparison& comparison) {
  const Job& job = request.problem.job;
  std::string text =
      fmt::format("{}, job {}, batch {}, seed {}\n", format_topology_size(request.problem.topology), job.name,
                  job.training.global_batch, request.options.seed);
  if (comparison.is_interrupted) text += format_remarks("warning", {io::interrupted_comparison});
  for (std::size_t i = 0; i < request.scenarios.size(); ++i)
    text += fmt::format("\n{}\n{}", i == 0 ? "nominal" : "scenario " + request.scenarios[i].name,
                        scenario_table(request.problem, comparison, i) + format_reference(comparison) +
                            format_fixed_shape(job) + format_measured(request, comparison, i) +
                            format_scenario_verification(comparison, i) +
                            (i == 0 ? format_speedups(comparison) : ""));
  return text + "\nSchemes and their assumptions:\n" + format_assumptions(comparison);
}

}  // namespace dtfm::cli
