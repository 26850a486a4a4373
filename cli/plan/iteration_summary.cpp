#include "cli/plan/summary.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/common/plan_formatting.hpp"
#include "cli/common/style.hpp"
#include "cli/common/target_formatting.hpp"
#include "cli/common/text_formatting.hpp"
#include "cli/common/topology_formatting.hpp"
#include "core/base/index.hpp"
#include "core/io/text/units.hpp"
#include "core/plan/target.hpp"
#include "core/plan/virtual_stages.hpp"
#include "planner/io/plan_document.hpp"
#include "planner/io/plan_notes.hpp"

namespace dtfm::cli {
namespace {

constexpr const char* not_completed = "never";  // instead of a time, if no iteration was completed

/// "micro-batch 2, recompute none, 1f1b, ring"
std::string format_decisions(const nlohmann::ordered_json& decisions) {
  std::string text;
  for (const auto& item : decisions.items()) {
    const auto& value = item.value();
    std::string name = item.key();
    // The values of these settings are self-explanatory without the name.
    const bool is_clear = name == "schedule" || name == "gradient_sync" || name == "optimizer_sharding";
    if (value == 0 || (value == "none" && name != "recompute")) continue;  // the plan has none
    std::replace(name.begin(), name.end(), '_', '-');
    if (!text.empty()) text += ", ";
    if (!value.is_string() || !is_clear) text += name + " ";
    text += value.is_string() ? value.get<std::string>() : fmt::format("{}", value.get<double>());
  }
  return text;
}

class IterationWriter {
 public:
  explicit IterationWriter(const api::PlanAnswer& answer)
      : s_(answer), topology_(answer.problem.topology), input_(model_input(answer.problem.job.model)) {}

  std::string title(const std::vector<TargetChange>& changes) const {
    const auto& pipelines = s_.plan.pipelines;
    std::string text =
        fmt::format("{}, job {}\n{} × {} on {}, {}", format_topology_size(topology_), s_.problem.job.name,
                    format_depth(s_.plan), format_count(static_cast<long long>(pipelines.size()), "replica"),
                    format_count(static_cast<long long>(pipeline_major(s_.plan).size()), "device"),
                    format_job_decisions(s_.problem.job, s_.plan));
    if (s_.problem.job.target) text += fmt::format("\nfor {}", name_of(*s_.problem.job.target));
    if (!changes.empty()) text += ": " + io::format_changes(decided_changes(changes, s_.problem.job));
    if (!s_.search) return text + "; scored as given\n";
    return text + fmt::format("\nseed {}, {}\n", s_.search->seed, io::format_search_end(s_));
  }

  std::string times() const {
    const auto& estimate = *s_.estimate;
    std::string text =
        styled(Style::heading, "Time of an iteration") + "\n" + row("estimated", estimate.iteration_s, "");
    for (const auto& [part, seconds] : estimate.breakdown()) {
      std::string name = part;
      std::replace(name.begin(), name.end(), '_', ' ');
      if (seconds > 0) text += row("  " + name, seconds, "");
    }
    for (const auto& it : s_.simulated())
      text += row("simulated", it.mean_s,
                  it.scenario == "nominal" ? interval_note() : "mean under " + it.scenario + cost_note(it));
    const bool is_time = !traits(s_.objective).device_weight;
    if (s_.lower_bound && is_time) text += row("lower bound", s_.lower_bound->value, bound_note());
    text += rates();
    if (s_.lower_bound && !is_time)
      text += fmt::format("\nlower bound {:.4g} {}, {}", s_.lower_bound->value,
                          texts(s_.objective, input_).unit, bound_note());
    text += "\n" + sensitivity();
    return s_.checkpoint_period ? text + io::format_checkpoint_period(*s_.checkpoint_period) + "\n" : text;
  }

  /// Throughput and cost of the undisturbed run: from the simulation if there was one, otherwise from the
  /// estimate.
  std::string rates() const {
    const auto& estimate = *s_.estimate;
    std::optional<double> simulated_s;
    for (const api::SimulatedTimes& it : s_.simulated())
      if (it.scenario == "nominal" && std::isfinite(it.mean_s)) simulated_s = it.mean_s;
    const double slowdown = simulated_s ? *simulated_s / estimate.iteration_s : 1;
    std::string text =
        fmt::format("{} {} {}/s, {:.4g} model TFLOP/s", simulated_s ? "simulated" : "estimated",
                    format_rate(estimate.tokens_per_s / slowdown), name_of(input_),
                    estimate.model_flops_per_s / slowdown / 1e12);
    if (!estimate.usd_per_million_tokens) return text;
    const double egress = estimate.egress_usd_per_million_tokens,
                 devices = (*estimate.usd_per_million_tokens - egress) * slowdown;
    text += fmt::format(", {:.4g} USD per million {}", devices + egress, name_of(input_));
    if (egress > 0) text += fmt::format(" ({:.4g} for devices, {:.4g} for egress)", devices, egress);
    return text;
  }

  /// What the plan costs without the departures for which it was made, and what it gains with them.
  std::string robustness() const {
    if (s_.fastest_undisturbed.empty()) return "";
    const std::vector<api::SimulatedTimes>&own = s_.simulated(), &fastest = s_.fastest_undisturbed;
    std::string text =
        styled(Style::heading, "Robustness, compared with the plan that is fastest undisturbed") + "\n";
    for (std::size_t i = 0; i < own.size(); ++i) {
      const double ratio = own[i].mean_s / fastest[i].mean_s - 1;
      const std::string change = !std::isfinite(fastest[i].mean_s)
                                     ? "the other plan never completes an iteration"
                                 : !std::isfinite(own[i].mean_s) ? ""
                                                                 : fmt::format("{:+.1f} %", 100 * ratio);
      text += row(own[i].scenario == "nominal" ? "undisturbed" : own[i].scenario, own[i].mean_s, change);
    }
    return text;
  }

  std::string stages() const {
    const RecomputationTraits& recomputation = traits(s_.plan.execution.recomputation);
    const bool decides = recomputation.is_per_stage();
    Rows rows = {{"stage", "layers", "memory", "devices"}};
    if (decides)
      rows.front().insert(rows.front().begin() + 2, recomputation.offloads ? "offloaded" : "recomputed");
    const int count = depth(s_.plan);
    const auto groups = stage_groups(s_.plan);
    for (int stage = 0; stage < count && rows.size() <= max_rows; ++stage) {
      rows.push_back({fmt::format("{}", stage), layers(stage), memory(groups[at(stage)]),
                      site_composition(topology_, groups[at(stage)])});
      if (decides) rows.back().insert(rows.back().begin() + 2, recomputed(stage));
    }
    return truncated_table(rows, at(count), "stages");
  }

  std::string unused() const {
    std::vector<bool> used(topology_.devices.size());
    for (const int device : pipeline_major(s_.plan)) used[at(device)] = true;
    std::vector<int> rest;
    for (int device = 0; device < topology_.size(); ++device)
      if (!used[at(device)]) rest.push_back(device);
    if (rest.empty()) return "";
    return fmt::format("Not used: {} ({})\n", format_count(static_cast<long long>(rest.size()), "device"),
                       truncate_text(site_composition(topology_, rest), 80));
  }

  std::string finalists() const {
    if (s_.finalists.size() < 2) return "";
    Rows rows = {{"finalist", "stages × replicas", "devices", "estimated s"}};
    for (const auto& it : s_.simulated())
      rows.front().push_back(it.scenario == "nominal" ? "simulated s" : it.scenario + " s");
    const std::vector<nlohmann::ordered_json> decisions = io::differing_decisions(s_.finalists);
    const bool differ = !decisions.front().empty();
    if (differ) rows.front().emplace_back("decisions");
    if (s_.warm_start) rows.front().emplace_back("migration s");
    constexpr std::size_t shown = 8;
    for (std::size_t i = 0; i < std::min(s_.finalists.size(), shown); ++i) {
      const auto& [it, simulated, sensitivity] = s_.finalists[i];
      rows.push_back({fmt::format("{}", i), format_shape(it.plan),
                      fmt::format("{}", pipeline_major(it.plan).size()), short_seconds(it.iteration_s)});
      for (const api::SimulatedTimes& run : simulated)
        rows.back().push_back(std::isfinite(run.mean_s) ? short_seconds(run.mean_s) : not_completed);
      if (differ) rows.back().push_back(format_decisions(decisions[i]));
      if (s_.warm_start) rows.back().push_back(short_seconds(it.migration.seconds));
    }
    return truncated_table(rows, s_.finalists.size(), "finalists") + estimate_note();
  }

  /// By how much the estimate of the chosen plan exceeds the best estimate.
  std::string estimate_note() const {
    const auto least = std::min_element(
        s_.finalists.begin(), s_.finalists.end(),
        [](const api::Finalist& a, const api::Finalist& b) { return a.candidate.score < b.candidate.score; });
    if (least == s_.finalists.begin() || s_.simulated().empty()) return "";
    const double ratio = s_.finalists.front().candidate.score / least->candidate.score - 1;
    return fmt::format("chosen by simulation: by the estimates, finalist {} is {} better\n",
                       least - s_.finalists.begin(), format_percent(ratio));
  }

  std::string target_times() const {
    if (s_.targets.empty()) return "";
    return format_target_times(s_.targets, s_.simulated().front().mean_s);
  }

  std::string warm_start() const {
    if (!s_.warm_start) return "";
    return format_warm_start(*s_.warm_start, s_.objective, input_, topology_);
  }

  std::string explanation() const { return s_.explanation ? format_explanation(s_) : ""; }

  /// The plan that the planner suggests instead of the scored one.
  std::string advice() const {
    if (!s_.advice) return "";
    const auto& [finalist, gain] = *s_.advice;
    const auto& advised = finalist.candidate;
    std::string text =
        fmt::format("The planner would take {} × {} on {}, {}\n", format_depth(advised.plan),
                    format_count(advised.shape().replicas, "replica"),
                    format_count(static_cast<long long>(pipeline_major(advised.plan).size()), "device"),
                    format_job_decisions(api::simulated_problem(advised).job, advised.plan));
    if (finalist.simulated.empty())
      text += row("estimated, incomplete", advised.iteration_s, gain_note(gain));
    for (const auto& it : finalist.simulated)
      text += row("simulated", it.mean_s,
                  it.scenario == "nominal" ? gain_note(gain) : "mean under " + it.scenario);
    return text;
  }

 private:
  /// How much longer the iteration takes if something is worse than assumed.
  std::string sensitivity() const {
    if (s_.finalists.empty() || s_.finalists.front().sensitivity.empty()) return "";
    std::string text;
    for (std::size_t i = 0; i < api::perturbation_table.size(); ++i)
      text += fmt::format("{}{} {:+.1f} %", text.empty() ? "sensitivity: " : ", ",
                          api::perturbation_table[i].text, 100 * s_.finalists.front().sensitivity[i]);
    return text + "\n";
  }

  /// What tokens cost under a scenario: devices are paid as long as they are available, also while they wait.
  std::string cost_note(const api::SimulatedTimes& it) const {
    const auto& estimate = *s_.estimate;
    if (!estimate.usd_per_million_tokens || !std::isfinite(it.mean_s)) return "";
    const double egress = estimate.egress_usd_per_million_tokens,
                 devices = (*estimate.usd_per_million_tokens - egress) * it.mean_s / estimate.iteration_s;
    return fmt::format(", {:.4g} USD per million {}", devices * it.paid_share + egress, name_of(input_));
  }

  static std::string format_rate(double rate) {
    return rate < 100 ? fmt::format("{:.3g}", rate) : with_thousands(std::llround(rate));
  }

  static std::string row(const std::string& name, double seconds, const std::string& note) {
    const std::string value = std::isfinite(seconds) ? fmt::format("{:.4f} s", seconds) : not_completed;
    return fmt::format("  {:<24}{:>14}{}{}\n", name, value, note.empty() ? "" : "  ", note);
  }

  std::string interval_note() const { return s_.interval ? format_interval(*s_.interval) : ""; }

  std::string gain_note(std::optional<double> gain) const {
    if (!gain) return "";
    return *gain > 0 ? styled(Style::good,
                              format_percent(*gain) + " " + std::string(texts(s_.objective, input_).gain))
                     : "no better than the plan as given";
  }

  std::string bound_note() const {
    const double gap = s_.lower_bound->gap();
    return s_.is_proven() ? styled(Style::good, "proven optimal") : "gap " + format_percent(gap);
  }

  /// The layers of the stage in the first pipeline, and how many pipelines differ.
  std::string layers(int stage) const {
    std::set<std::vector<std::pair<int, int>>> all;
    for (const Pipeline& pipeline : s_.plan.pipelines)
      if (at(stage) < pipeline.stages.size())
        all.insert(layers_by_stage(pipeline, stage_chunks(s_.problem.job))[at(stage)]);
    return format_layers(*all.begin()) +
           (all.size() > 1 ? fmt::format(" (and {} other)", all.size() - 1) : "");
  }

  /// How many layers of the stage are recomputed or offloaded, if plans decide that: "3 of 6", or "0 to 3 of
  /// 6" in different pipelines.
  std::string recomputed(int stage) const {
    std::set<int> all, layers;
    for (const Pipeline& pipeline : s_.plan.pipelines)
      if (at(stage) < pipeline.stages.size()) {
        const Stage& it = pipeline.stages[at(stage)];
        int count = 0;
        const auto chunks = virtual_stage_layers(pipeline, s_.plan.execution.chunks.value_or(1));
        for (std::size_t i = at(stage); i < chunks.size(); i += pipeline.stages.size())
          count += std::min(it.recompute_layers.value_or(0), chunks[i].second - chunks[i].first);
        all.insert(count);
        layers.insert(it.layers.second - it.layers.first);
      }
    const auto range = [](const std::set<int>& counts) {
      return counts.size() == 1 ? fmt::format("{}", *counts.begin())
                                : fmt::format("{} to {}", *counts.begin(), *counts.rbegin());
    };
    return fmt::format("{} of {}", range(all), range(layers));
  }

  /// Memory of the device that uses the largest share of its own.
  std::string memory(const std::vector<int>& devices) const {
    double max_share = -1;
    std::string text = "?";
    for (const auto& it : s_.estimate->memory) {
      if (std::find(devices.begin(), devices.end(), it.device) == devices.end()) continue;
      const double share = it.needed / it.capacity;
      if (share <= max_share) continue;
      max_share = share;
      text = fmt::format("{:.1f} of {:.3g} GB", it.needed / 1e9, it.capacity / 1e9);
      if (it.is_near_limit()) text += ", near the limit";
      if (share > 1) text = styled(Style::bad, text);
    }
    return text;
  }

  const api::PlanAnswer& s_;
  const Topology& topology_;
  const ModelInput input_;
};

}  // namespace

std::string format_iteration_summary(const api::PlanAnswer& answer,
                                     const std::vector<TargetChange>& changes) {
  const IterationWriter writer(answer);
  return join_blocks({writer.title(changes) + format_remarks("warning", io::notes_of(answer)),
                      format_smallest_cluster(answer), format_least_bandwidth(answer), writer.times(),
                      writer.robustness(), writer.warm_start(), writer.stages(),
                      format_pipelines(answer.problem.topology, answer.plan) + writer.unused(),
                      writer.finalists(), writer.target_times(), writer.advice(), writer.explanation()});
}

}  // namespace dtfm::cli
