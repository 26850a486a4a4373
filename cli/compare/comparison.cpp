#include "cli/compare/comparison.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/common/text_formatting.hpp"
#include "cli/common/topology_formatting.hpp"
#include "cli/common/verification_formatting.hpp"
#include "planner/core/index.hpp"
#include "simulator/io/swarm_json.hpp"
#include "simulator/report/run_totals.hpp"

namespace dtfm::cli {
namespace {

using nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

constexpr const char* interrupted = "interrupted: schemes may be missing, and others not run to their end";

double tokens_per_batch(const Problem& problem) {
  return static_cast<double>(problem.job.training.global_batch) * sequence_length(problem.job.model);
}

/// Why a run is no result; empty: it is one.
std::string no_layout_reason(const Problem& problem, const ComparedRun& run) {
  if (!run.error.empty()) return run.error;
  if (!run.report.out_of_memory.empty())
    return fmt::format("{} lacks memory", problem.topology.devices[at(run.report.out_of_memory.front())].id);
  if (run.report.tokens_per_s > 0) return "";
  return run.report.stopped.empty() ? "no iteration in this time" : run.report.stopped;
}

/// 0: the run is no result.
double tokens_per_s(const Problem& problem, const ComparedRun& run) {
  return no_layout_reason(problem, run).empty() ? run.report.tokens_per_s : 0;
}

/// As many tokens as an iteration of the job has, at the rate of the run.
double seconds_per_batch(const Problem& problem, const ComparedRun& run) {
  const double rate = tokens_per_s(problem, run);
  return rate > 0 ? tokens_per_batch(problem) / rate : 0;
}

double sent_bytes(const sim::SimReport& report) {
  double bytes = 0;
  for (const sim::LinkReport& it : report.links) bytes += it.bytes;
  return bytes;
}

std::optional<double> cost_per_million_tokens(const Problem& problem, const ComparedRun& run) {
  return sim::usd_per_million_tokens(problem, run.report, tokens_per_s(problem, run));
}

/// Its time ÷ that of the scheme that the others are held against: the first of all, which is the plan where
/// it is asked for. 0: one of the two does not run.
double time_ratio(const Comparison& comparison, const ComparedRun& run, std::size_t scenario) {
  const ComparedScheme& first = comparison.schemes.front();
  const double rate = tokens_per_s(comparison.problem, run);
  if (first.runs.empty() || rate <= 0) return 0;
  return tokens_per_s(comparison.problem, first.runs[scenario]) / rate;
}

/// The fastest first; then those whose run ended early, whose rate is of a part of it; then those that do not
/// run, in the order of the table.
std::vector<const ComparedScheme*> rank_schemes(const Comparison& comparison, std::size_t scenario) {
  std::vector<const ComparedScheme*> order;
  for (const ComparedScheme& it : comparison.schemes) order.push_back(&it);
  const auto rate = [&](const ComparedScheme* it) {
    return it->runs.empty() ? 0 : tokens_per_s(comparison.problem, it->runs[scenario]);
  };
  const auto is_cut = [&](const ComparedScheme* it) {
    return rate(it) > 0 && !it->runs[scenario].report.stopped.empty();
  };
  const auto group = [&](const ComparedScheme* it) { return rate(it) <= 0 ? 2 : is_cut(it) ? 1 : 0; };
  std::stable_sort(order.begin(), order.end(), [&](auto* a, auto* b) {
    return group(a) != group(b) ? group(a) < group(b) : rate(a) > rate(b);
  });
  return order;
}

/// Whose time the others are held against; empty where there is nobody.
std::string format_reference(const Comparison& comparison) {
  if (comparison.schemes.empty() || comparison.schemes.front().runs.empty()) return "";
  return fmt::format("time: ÷ that of {}\n", comparison.schemes.front().name);
}

std::string scenario_table(const Comparison& comparison, std::size_t scenario) {
  const Problem& problem = comparison.problem;
  Rows rows = {{"scheme", "s a batch", "tokens/s", "time", "USD/M tokens", "layout"}};
  for (const ComparedScheme* it : rank_schemes(comparison, scenario)) {
    const std::string why =
        it->runs.empty() ? it->chosen.no_layout_reason : no_layout_reason(problem, it->runs[scenario]);
    if (it->runs.empty() || !why.empty()) {
      rows.push_back({it->name, "–", "–", "–", "–", (it->runs.empty() ? "none: " : "stopped: ") + why});
      continue;
    }
    const ComparedRun& run = it->runs[scenario];
    const double ratio = time_ratio(comparison, run, scenario);
    const auto cost = cost_per_million_tokens(problem, run);
    rows.push_back({it->name, fmt::format("{:.6g}", seconds_per_batch(problem, run)),
                    fmt::format("{:.6g}", tokens_per_s(problem, run)),
                    ratio <= 0     ? "–"
                    : ratio < 0.01 ? fmt::format("{:.2g} ×", ratio)
                                   : fmt::format("{:.2f} ×", ratio),
                    cost ? fmt::format("{:.4g}", *cost) : "–",
                    api::format_shape(problem, it->chosen) +
                        (run.report.stopped.empty() ? "" : "; stopped: " + run.report.stopped)});
  }
  return table(rows);
}

/// Over how much the run was measured, in whole numbers or seconds.
std::string format_measure(const sim::SimReport& report, bool by_time) {
  return by_time ? fmt::format("{:.6g} s", report.length_s)
                 : with_thousands(static_cast<long long>(report.iterations.size()));
}

/// Rates of runs of unlike length are held against each other: over how much each is; empty where all are
/// alike.
std::string format_measured(const Comparison& comparison, std::size_t scenario) {
  const bool by_time = comparison.scenarios[scenario].horizon_s.has_value();
  std::vector<std::pair<std::string, std::vector<std::string>>> measures;  // and the schemes of each
  for (const ComparedScheme& it : comparison.schemes) {
    if (it.runs.empty() || tokens_per_s(comparison.problem, it.runs[scenario]) <= 0) continue;
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

/// What verifying came to, a line for each who does; empty where nobody does.
std::string format_scenario_verification(const Comparison& comparison, std::size_t scenario) {
  std::string text;
  for (const ComparedScheme& it : comparison.schemes)
    if (!it.runs.empty() && it.runs[scenario].report.verification)
      text += fmt::format("{}: {}\n", it.name, format_verification(it.runs[scenario].report));
  return text;
}

std::string format_assumptions(const Comparison& comparison) {
  Rows rows;
  for (const ComparedScheme& it : comparison.schemes)
    rows.push_back({it.name, fmt::format("{}; {}", it.what, it.assumes)});
  return align_columns(rows);
}

ordered_json layout_json(const Problem& problem, const api::ChosenLayout& chosen) {
  ordered_json json = {{"tried", chosen.tried}, {"fitting", chosen.fitting}};
  if (chosen.is_any()) json["words"] = api::format_shape(problem, chosen);
  if (chosen.swarm) json["pipeline"] = chosen.swarm->stages;
  if (!chosen.layout) return json;
  const Plan& plan = chosen.layout->plan;
  json["tensor"] = plan.tensor;
  json["pipeline"] = depth(plan);
  json["data"] = plan.pipelines.size();
  json["micro_batch"] = chosen.layout->job.training.micro_batch;
  json["schedule"] = plan.schedule;
  json["sync_every"] = chosen.layout->sync_every;
  json["gradient_sync"] = plan.gradient_sync;
  if (chosen.layout->skipped) json["skipped"] = *chosen.layout->skipped;
  if (chosen.layout->routing) json["greedy_paths"] = chosen.layout->routing->greedy;
  return json;
}

/// Numbers that are 0 where they are not known.
ordered_json null_if_empty(double value) {
  return value > 0 ? ordered_json(value) : ordered_json(nullptr);
}

/// Texts that are empty where there is nothing to say.
ordered_json null_if_empty(const std::string& text) {
  return text.empty() ? ordered_json(nullptr) : ordered_json(text);
}

ordered_json run_json(const Comparison& comparison, const ComparedScheme& scheme, std::size_t scenario) {
  const Problem& problem = comparison.problem;
  const ComparedRun& run = scheme.runs[scenario];
  const auto cost = cost_per_million_tokens(problem, run);
  const std::string why = no_layout_reason(problem, run);
  ordered_json json = {{"scenario", null_if_empty(comparison.scenarios[scenario].name)},
                       {"seconds_per_batch", null_if_empty(seconds_per_batch(problem, run))},
                       {"time_ratio", null_if_empty(time_ratio(comparison, run, scenario))},
                       {"tokens_per_s", null_if_empty(tokens_per_s(problem, run))},
                       {"model_flops_per_s", null_if_empty(why.empty() ? run.report.model_flops_per_s : 0)},
                       {"cost_per_million_tokens", cost ? ordered_json(*cost) : ordered_json(nullptr)},
                       {"iterations", run.report.iterations.size()},
                       {"length_s", run.report.length_s},
                       {"sent_bytes", sent_bytes(run.report)},
                       {"lost_work_s", run.report.lost_work_s},
                       {"stopped", null_if_empty(why.empty() ? run.report.stopped : why)}};
  if (run.report.verification)
    json["verification"] = io::verification_json(problem.topology, *run.report.verification);
  return json;
}

}  // namespace

std::string format_summary(const Comparison& comparison) {
  const Topology& topology = comparison.problem.topology;
  std::string text =
      fmt::format("{}, job {}, batch {}, seed {}\n", format_topology_size(topology),
                  comparison.problem.job.name, comparison.problem.job.training.global_batch, comparison.seed);
  if (comparison.is_interrupted) text += format_remarks("warning", {interrupted});
  for (std::size_t i = 0; i < comparison.scenarios.size(); ++i)
    text += fmt::format("\n{}\n{}", i == 0 ? "nothing happens" : "scenario " + comparison.scenarios[i].name,
                        scenario_table(comparison, i) + format_reference(comparison) +
                            format_measured(comparison, i) + format_scenario_verification(comparison, i));
  return text + "\nWhat each row is, and assumes:\n" + format_assumptions(comparison);
}

ordered_json comparison_document(const Comparison& comparison) {
  const auto& [problem, scenarios, seed, schemes, is_interrupted] = comparison;
  ordered_json json = {
      {"schema", "dtfm-compare/1"},
      {"topology", {{"name", problem.topology.name}, {"fingerprint", problem.topology.fingerprint()}}},
      {"job", problem.job.name},
      {"batch", problem.job.training.global_batch},
      {"seed", seed},
      {"stopped", is_interrupted ? ordered_json(interrupted) : ordered_json(nullptr)}};
  json["schemes"] = ordered_json::array();
  for (const ComparedScheme& it : schemes) {
    ordered_json row = {{"scheme", it.name},
                        {"what", it.what},
                        {"assumes", it.assumes},
                        {"layout", layout_json(problem, it.chosen)},
                        {"why_none", null_if_empty(it.chosen.is_any() ? "" : it.chosen.no_layout_reason)}};
    row["runs"] = ordered_json::array();
    for (std::size_t i = 0; i < it.runs.size(); ++i) row["runs"].push_back(run_json(comparison, it, i));
    json["schemes"].push_back(std::move(row));
  }
  json["version"] = DTFM_VERSION;
  return json;
}

}  // namespace dtfm::cli
