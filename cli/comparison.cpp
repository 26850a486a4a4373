#include "cli/comparison.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/topology_words.hpp"
#include "cli/words.hpp"
#include "planner/core/index.hpp"
#include "planner/io/json_text.hpp"

namespace dtfm {
namespace {

using nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

double tokens_of_batch(const Problem& problem) {
  return static_cast<double>(problem.job.training.global_batch) * sequence_length(problem.job.model);
}

/// Of what was not lost later, over the whole run, where that is another rate.
double tokens_per_s(const Problem& problem, const ComparedRun& run) {
  if (!run.report.useful) return run.report.tokens_per_s;
  return run.report.useful->samples_per_s * sequence_length(problem.job.model);
}

/// At that rate.
double model_flops_per_s(const Problem& problem, const ComparedRun& run) {
  if (run.report.tokens_per_s <= 0) return 0;
  return run.report.model_flops_per_s / run.report.tokens_per_s * tokens_per_s(problem, run);
}

double sent_bytes(const SimReport& report) {
  double bytes = 0;
  for (const LinkReport& it : report.links) bytes += it.bytes;
  return bytes;
}

/// Of the devices that had a place, while they were there; what is sent over links with a price comes on top
/// where the run says what that is. Nothing where a price is not known.
std::optional<double> cost_per_million_tokens(const Problem& problem, const ComparedRun& run) {
  const double rate = tokens_per_s(problem, run), length = run.report.length_s;
  if (rate <= 0 || length <= 0) return std::nullopt;
  double usd_per_s = run.report.useful ? run.report.useful->usd_egress / length : 0;
  for (const DeviceReport& it : run.report.devices) {
    const auto price = price_of(problem.topology, it.device);
    if (!price) return std::nullopt;
    usd_per_s += price->value() / seconds_per_hour * (1 - it.down_s / length);
  }
  return usd_per_s / rate * 1e6;
}

/// Why a run is no result; empty: it is one.
std::string fault_of(const Comparison& comparison, const ComparedRun& run) {
  if (!run.error.empty()) return run.error;
  if (!run.report.overfull.empty())
    return fmt::format("{} lacks memory",
                       comparison.problem.topology.devices[at(run.report.overfull.front())].id);
  return tokens_per_s(comparison.problem, run) > 0 ? "" : run.report.stopped;
}

/// Of the scheme that the others are held against: the first of all, which is the plan where it is asked for;
/// 0: it does not run.
double reference_rate(const Comparison& comparison, std::size_t scenario) {
  if (comparison.schemes.empty()) return 0;  // interrupted
  const ComparedScheme& first = comparison.schemes.front();
  if (!first.runs.empty() && fault_of(comparison, first.runs[scenario]).empty())
    return tokens_per_s(comparison.problem, first.runs[scenario]);
  return 0;
}

std::string layout_text(const Problem& problem, const ComparedScheme& scheme) {
  return scheme.chosen.is_any() ? shape_text(problem, scheme.chosen) : "none: " + scheme.chosen.why_none;
}

/// The fastest first; then those that do not run, in the order of the table.
std::vector<const ComparedScheme*> ranked(const Comparison& comparison, std::size_t scenario) {
  std::vector<const ComparedScheme*> order;
  for (const ComparedScheme& it : comparison.schemes) order.push_back(&it);
  const auto rate = [&](const ComparedScheme* it) {
    return it->runs.empty() ? 0 : tokens_per_s(comparison.problem, it->runs[scenario]);
  };
  std::stable_sort(order.begin(), order.end(), [&](auto* a, auto* b) { return rate(a) > rate(b); });
  return order;
}

std::string scenario_table(const Comparison& comparison, std::size_t scenario) {
  Rows rows = {{"scheme", "s a batch", "tokens/s", "time", "USD/M tokens", "layout"}};
  const double reference = reference_rate(comparison, scenario);
  for (const ComparedScheme* it : ranked(comparison, scenario)) {
    if (it->runs.empty()) {
      rows.push_back({it->name, "–", "–", "–", "–", layout_text(comparison.problem, *it)});
      continue;
    }
    const ComparedRun& run = it->runs[scenario];
    const double rate = tokens_per_s(comparison.problem, run);
    const std::string why = fault_of(comparison, run);
    if (rate <= 0 || !why.empty()) {
      rows.push_back(
          {it->name, "–", "–", "–", "–", why.empty() ? "no iteration in this time" : "stopped: " + why});
      continue;
    }
    const auto cost = cost_per_million_tokens(comparison.problem, run);
    rows.push_back({it->name, fmt::format("{:.6g}", seconds_per_batch(comparison, run)),
                    fmt::format("{:.6g}", rate),
                    reference > 0 ? fmt::format("{:.2f} ×", reference / rate) : "–",
                    cost ? fmt::format("{:.4g}", *cost) : "–", layout_text(comparison.problem, *it)});
  }
  return table(rows);
}

std::string assumptions(const Comparison& comparison) {
  Rows rows;
  for (const ComparedScheme& it : comparison.schemes)
    rows.push_back({it.name, fmt::format("{}; {}", it.what, it.assumes)});
  return aligned(rows);
}

ordered_json layout_json(const ChosenLayout& chosen) {
  ordered_json json = {{"tried", chosen.tried}, {"fitting", chosen.fitting}};
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
ordered_json known(double value) {
  return value > 0 ? ordered_json(value) : ordered_json(nullptr);
}

ordered_json run_json(const Comparison& comparison, const ComparedScheme& scheme, std::size_t scenario) {
  const ComparedRun& run = scheme.runs[scenario];
  const auto cost = cost_per_million_tokens(comparison.problem, run);
  const std::string fault = fault_of(comparison, run);
  const std::string why = fault.empty() ? run.report.stopped : fault;
  const std::string& name = comparison.scenarios[scenario];
  return {{"scenario", name.empty() ? ordered_json(nullptr) : ordered_json(name)},
          {"seconds_per_batch", known(seconds_per_batch(comparison, run))},
          {"tokens_per_s", known(tokens_per_s(comparison.problem, run))},
          {"model_flops_per_s", known(model_flops_per_s(comparison.problem, run))},
          {"cost_per_million_tokens", cost ? ordered_json(*cost) : ordered_json(nullptr)},
          {"iterations", run.report.iterations.size()},
          {"length_s", run.report.length_s},
          {"sent_bytes", sent_bytes(run.report)},
          {"lost_work_s", run.report.lost_work_s},
          {"stopped", why.empty() ? ordered_json(nullptr) : ordered_json(why)}};
}

}  // namespace

double seconds_per_batch(const Comparison& comparison, const ComparedRun& run) {
  const double rate = tokens_per_s(comparison.problem, run);
  return rate > 0 ? tokens_of_batch(comparison.problem) / rate : 0;
}

std::string summary_text(const Comparison& comparison) {
  const Topology& topology = comparison.problem.topology;
  std::string text =
      fmt::format("{}, job {}, batch {}, seed {}\n", machines_in_words(topology), comparison.problem.job.name,
                  comparison.problem.job.training.global_batch, comparison.seed);
  for (std::size_t i = 0; i < comparison.scenarios.size(); ++i)
    text += fmt::format("\n{}\n{}", i == 0 ? "nothing happens" : "scenario " + comparison.scenarios[i],
                        scenario_table(comparison, i));
  return text + "\nWhat each row is, and assumes:\n" + assumptions(comparison);
}

std::string comparison_json(const Comparison& comparison) {
  const auto& [problem, scenarios, seed, schemes] = comparison;
  ordered_json json = {
      {"schema", "dtfm-compare/1"},
      {"topology", {{"name", problem.topology.name}, {"fingerprint", problem.topology.fingerprint()}}},
      {"job", problem.job.name},
      {"seed", seed}};
  json["schemes"] = ordered_json::array();
  for (const ComparedScheme& it : schemes) {
    ordered_json row = {
        {"scheme", it.name},
        {"what", it.what},
        {"assumes", it.assumes},
        {"layout", layout_json(it.chosen)},
        {"why_none", it.chosen.is_any() ? ordered_json(nullptr) : ordered_json(it.chosen.why_none)}};
    row["runs"] = ordered_json::array();
    for (std::size_t i = 0; i < it.runs.size(); ++i) row["runs"].push_back(run_json(comparison, it, i));
    json["schemes"].push_back(std::move(row));
  }
  json["version"] = DTFM_VERSION;
  return json_text(json);
}

}  // namespace dtfm
