#include "planner/io/plan_document.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/base/index.hpp"
#include "core/io/writers/plan_json.hpp"
#include "core/io/writers/plan_text.hpp"
#include "core/io/writers/rate_keys.hpp"
#include "core/plan/settings.hpp"
#include "core/plan/target.hpp"
#include "planner/io/explanation_text.hpp"
#include "planner/io/json_values.hpp"
#include "planner/io/plan_notes.hpp"

namespace dtfm::io {
namespace {

using nlohmann::ordered_json;

ordered_json memory_json(const cost::DeviceMemory& memory, const Topology& topology) {
  return {{"device", topology.devices[at(memory.device)].id},
          {"needed_bytes", std::ceil(memory.needed)},
          {"capacity_bytes", memory.capacity},
          {"state_bytes", std::ceil(memory.state)},
          {"process_bytes", memory.process},
          {"reserved_bytes", std::ceil(memory.reserved())},
          {"verdict", cost::name_of(memory.verdict())}};
}

void add_iteration(const api::PlanEstimate& estimate, const Topology& topology, ModelInput input,
                   ordered_json& json) {
  json["iteration_time_s"] = estimate.iteration_s;
  json[rate_key(input)] = estimate.tokens_per_s;
  json["model_flops_per_s"] = estimate.model_flops_per_s;
  json[cost_key(input)] = nullptr;
  if (const auto& usd = estimate.usd_per_million_tokens) {
    json[cost_key(input)] = *usd;
    json["cost_parts"] = {{"devices", *usd - estimate.egress_usd_per_million_tokens},
                          {"egress", estimate.egress_usd_per_million_tokens}};
  }
  json["breakdown"] = ordered_json::object();
  for (const auto& [name, seconds] : estimate.breakdown()) json["breakdown"][name] = seconds;
  json["memory"] = ordered_json::array();
  for (const cost::DeviceMemory& it : estimate.memory) json["memory"].push_back(memory_json(it, topology));
}

ordered_json simulated_json(const std::vector<api::SimulatedTimes>& scenarios) {
  ordered_json json = ordered_json::object();
  for (const api::SimulatedTimes& times : scenarios)
    json[times.scenario] = {{"mean_s", finite_or_null(times.mean_s)},
                            {"p95_s", finite_or_null(times.p95_s)},
                            {"max_s", finite_or_null(times.max_s)}};
  return json;
}

ordered_json finalist_json(const api::Finalist& finalist, bool is_warm_start) {
  const search::PlanCandidate& it = finalist.candidate;
  ordered_json json = {{"pipeline", it.shape().stages},
                       {"data", it.shape().replicas},
                       {"tensor", it.plan.tensor},
                       {"devices", pipeline_major(it.plan).size()},
                       {"iteration_time_s", it.iteration_s}};
  if (is_warm_start) json["migration_s"] = it.migration.seconds;
  json["simulated"] = simulated_json(finalist.simulated);
  for (std::size_t i = 0; i < finalist.sensitivity.size(); ++i)
    json["sensitivity"][api::perturbation_table[i].key] = finalist.sensitivity[i];
  return json;
}

ordered_json finalists_json(const api::PlanAnswer& answer) {
  ordered_json json = ordered_json::array();
  const std::vector<ordered_json> decisions = differing_decisions(answer.finalists);
  for (std::size_t i = 0; i < decisions.size(); ++i) {
    json.push_back(finalist_json(answer.finalists[i], answer.warm_start.has_value()));
    if (!decisions[i].empty()) json.back()["decisions"] = decisions[i];
  }
  return json;
}

ordered_json advice_json(const api::Advice& advice) {
  const search::PlanCandidate& candidate = advice.plan.candidate;
  return {{"plan", finalist_json(advice.plan, false)},
          {"decisions", format_job_decisions(api::simulated_problem(candidate).job, candidate.plan)},
          {"gain", number_or_null(advice.gain)}};
}

ordered_json estimate_json(const api::PlanAnswer& answer, ModelInput input) {
  ordered_json json = ordered_json::object();
  if (answer.estimate) add_iteration(*answer.estimate, answer.problem.topology, input, json);
  if (answer.interval) json["iteration_time_interval_s"] = interval_json(*answer.interval);
  if (answer.comm_cost) {
    const cost::CommCost& cost = answer.comm_cost->cost;
    json["comm_cost"] = {{"data_parallel_s", cost.data_parallel},
                         {"pipeline_parallel_s", cost.pipeline_parallel},
                         {"total_s", cost.total()}};
  }
  return json;
}

ordered_json bound_json(const api::PlanBound& bound, const ObjectiveTexts& objective) {
  return {{"value", bound.value}, {"unit", objective.unit}, {"gap", bound.gap()}, {"method", bound.method}};
}

ordered_json shortage_json(const cost::MemoryNeed& need) {
  const bool is_sum = need.kind == cost::MemoryNeed::Kind::sum;
  ordered_json json = {{"of", is_sum ? "all-devices" : "layer"}};
  if (is_sum)
    json["replicas"] = need.replicas;
  else
    json["layer"] = need.layer;
  json["devices"] = need.devices;
  json["needed_bytes"] = std::ceil(need.needed_bytes);
  json["state_bytes"] = std::ceil(need.state_bytes);
  json["available_bytes"] = need.available_bytes;
  json["parameters"] = need.parameters;
  json["bytes_per_parameter"] = need.state_bytes_per_parameter;
  return json;
}

ordered_json change_json(const search::FeasibleChange& change, const Topology& topology) {
  using Kind = search::FeasibleChange::Kind;
  ordered_json settings = ordered_json::object();
  switch (change.kind) {
    case Kind::shape:
      if (change.frees_stages) settings["pipeline"] = "auto";
      if (change.frees_replicas) settings["data"] = "auto";
      return {{"settings", settings},
              {"found", {{"pipeline", change.shape.stages}, {"data", change.shape.replicas}}}};
    case Kind::settings:
      for (const auto& [setting, value] : change.settings)
        settings[std::string(name_of(setting))] = format_value(value);
      return {{"settings", settings}};
    case Kind::target:
      return {{"target", nullptr}};
    case Kind::hosts:
      return {{"more_hosts", change.hosts}, {"like", topology.devices[at(change.like)].id}};
    case Kind::memory:
      break;
  }
  return {{"gpu_memory_bytes", change.gigabytes * 1e9}};
}

/// Why no plan fits in memory, and what would make one fit.
ordered_json out_of_memory_json(const api::PlanAnswer& answer) {
  ordered_json json = ordered_json::object();
  if (answer.shortage) json["shortage"] = shortage_json(*answer.shortage);
  json["changes"] = ordered_json::array();
  for (const search::FeasibleChange& it :
       answer.feasible_changes.value_or(std::vector<search::FeasibleChange>()))
    json["changes"].push_back(change_json(it, answer.problem.topology));
  return json;
}

ordered_json search_json(const api::PlanAnswer& answer) {
  const api::SearchSummary& search = *answer.search;
  ordered_json convergence = ordered_json::array();
  for (const auto& [evaluations, cost] : search.convergence)
    convergence.push_back(ordered_json::array({evaluations, cost}));
  return {{"strategy", search.strategy},
          {"seed", search.seed},
          {"evaluations", search.evaluations},
          {"stopped", name_of(answer.stopped())},
          {"convergence", std::move(convergence)}};
}

ordered_json throughput_json(const cost::PlanThroughput& it, ModelInput input) {
  return {{"iteration_time_s", finite_or_null(it.iteration_s)},
          {rate_key(input), it.tokens_per_s},
          {"model_flops_per_s", it.model_flops_per_s},
          {"compute_s", it.compute_s},
          {"sending_s", it.sending_s},
          {"gradient_sync_s", it.sync_s},
          {"fits", it.deficit_bytes <= 0}};
}

ordered_json change_json(const cost::WhatIf& what, const std::string& description) {
  ordered_json json = {{"change", name_of(what.change)}, {"description", description}};
  if (!what.impossible.empty()) {
    json["impossible"] = what.impossible;
    return json;
  }
  json["iteration_time_s"] = finite_or_null(what.iteration_s);
  json["gain"] = finite_or_null(what.gain);
  json["fits"] = what.deficit_bytes <= 0;
  return json;
}

ordered_json message_json(const cost::MessageReason& it) {
  constexpr std::array names = {"hidden", "busy_link", "round_trip", "blocking", "order"};
  return {{"pipeline", it.pipeline},   {"stage", it.stage},
          {"trip_s", it.trip_s},       {"latency_s", it.latency_s},
          {"exposed_s", it.exposed_s}, {"exposure", names[static_cast<std::size_t>(it.exposure)]}};
}

ordered_json stage_json(const cost::StageReason& it) {
  constexpr std::array names = {"busiest", "memory", "compute", "messages", "none", "unknown"};
  ordered_json json = {{"pipeline", it.pipeline},
                       {"stage", it.stage},
                       {"busy_share", it.busy_share},
                       {"limit", names[static_cast<std::size_t>(it.limit)]}};
  if (it.host_wait_s > 0) json["host_wait_s"] = it.host_wait_s;
  if (it.more_s > 0) json["with_one_more_layer_s"] = it.more_s;
  if (it.without_s > 0) json["without_it_s"] = it.without_s;
  return json;
}

ordered_json explanation_json(const api::PlanAnswer& answer, ModelInput input) {
  const cost::PlanExplanation& found = *answer.explanation;
  const ExplanationText text = explanation_text(answer);
  const auto& [dominant, savings, shares, resource, parts, critical_path, peak_memory] = found.bottleneck;
  ordered_json json = {
      {"summary", text.summary},
      {"bottleneck",
       {{"kind", name_of(dominant.kind)}, {"seconds", dominant.seconds}, {"share", dominant.share}}},
      {"resource",
       {{"kind", resource.is_hop ? "hop" : "stage"},
        {"pipeline", resource.pipeline},
        {"stage", resource.stage},
        {"seconds", resource.seconds},
        {"latency_s", resource.latency_s}}},
      {"parts",
       {{"pipeline_bubble", parts.fill_s},
        {"steady_state", parts.steady_s},
        {"exposed_gradient_sync", parts.sync_s},
        {"optimizer_step", parts.update_s},
        {"overhead", parts.overhead_s}}},
      {"shares",
       {{"compute", shares.compute_s},
        {"exposed_communication", shares.messages_s},
        {"bubble", shares.bubble_s},
        {"exposed_gradient_sync", shares.sync_s},
        {"optimizer_step", shares.update_s},
        {"overhead", shares.overhead_s}}}};
  for (const cost::Bottleneck& it : savings) json["savings"][std::string(name_of(it.kind))] = it.seconds;
  json["messages"] = {{"text", text.messages}, {"hops", ordered_json::array()}};
  for (const cost::MessageReason& it : found.messages.hops)
    json["messages"]["hops"].push_back(message_json(it));
  json["devices"] = {{"text", text.devices}, {"stages", ordered_json::array()}};
  for (const cost::StageReason& it : found.devices.stages)
    json["devices"]["stages"].push_back(stage_json(it));
  if (peak_memory) json["peak_memory"] = memory_json(*peak_memory, answer.problem.topology);
  json["changes"] = ordered_json::array();
  for (std::size_t i = 0; i < found.what_ifs.size(); ++i)
    json["changes"].push_back(change_json(found.what_ifs[i], text.changes[i]));
  json["scaling"] = text.scaling;
  json["now"] = throughput_json(found.now, input);
  if (found.double_width) json["double_width"] = throughput_json(*found.double_width, input);
  json["compute_bound"] = {{"compression", number_or_null(found.compute_bound_compression)},
                           {"width", number_or_null(found.compute_bound_width)}};
  return json;
}

ordered_json warm_start_json(const api::WarmStartAnswer& warm, const ObjectiveTexts& objective,
                             const Topology& topology) {
  const api::WarmStartResult& result = warm.result;
  ordered_json json = {{"plan", warm.plan}, {"horizon_s", warm.horizon_s}, {"keeps_plan", result.keeps_plan}};
  if (const std::string obstacle = format_obstacle(result); !obstacle.empty())
    json["cannot_keep_reason"] = obstacle;
  json["unchanged_iteration_time_s"] = number_or_null(result.unchanged_iteration_s);
  json["gain"] = nullptr;
  if (const auto& gain = result.gain)
    json["gain"] = {{"value", gain->value}, {"unchanged", gain->unchanged}, {"unit", objective.unit}};
  json["break_even_iterations"] = number_or_null(result.break_even_iterations);
  json["migration"] = migration_json(result.migration, topology);
  return json;
}

ordered_json smallest_cluster_json(const api::SmallestCluster& it) {
  ordered_json json = {{"by", it.is_by_price ? "usd_per_hour" : "devices"},
                       {"value", it.value},
                       {"lower_bound", it.lower_bound},
                       {"bound_method", it.bound_method},
                       {"is_proven", it.is_proven},
                       {"is_exhaustive", it.is_exhaustive},
                       {"is_met", it.is_met}};
  if (it.max_iteration_s) json["max_iteration_time_s"] = *it.max_iteration_s;
  json["tried"] = ordered_json::array();
  for (const api::TriedCluster& tried : it.tried) {
    ordered_json used = ordered_json::array();
    for (const api::DeviceCount& count : tried.used)
      used.push_back({{"site", count.site}, {"gpu", count.gpu}, {"count", count.count}});
    json["tried"].push_back({{"devices", tried.devices},
                             {"usd_per_hour", number_or_null(tried.usd_per_hour)},
                             {"iteration_time_s", finite_or_null(tried.iteration_s)},
                             {"is_enough", tried.is_enough},
                             {"used", std::move(used)}});
  }
  return json;
}

ordered_json least_bandwidth_json(const api::LeastBandwidth& it, const Topology& topology) {
  ordered_json json = {
      {"sites", {topology.sites[at(it.sites.first)].name, topology.sites[at(it.sites.second)].name}},
      {"max_iteration_time_s", finite_or_null(it.max_iteration_s)},
      {"unlimited_iteration_time_s", finite_or_null(it.unlimited_s)}};
  json["least_bps"] = it.least ? ordered_json(it.rows[*it.least].bits_per_s) : ordered_json(nullptr);
  json["rows"] = ordered_json::array();
  for (const api::BandwidthRow& row : it.rows)
    json["rows"].push_back({{"bandwidth_bps", row.bits_per_s},
                            {"factor", row.factor},
                            {"iteration_time_s", finite_or_null(row.iteration_s)},
                            {"simulated_s", number_or_null(row.simulated_s)},
                            {"throughput", row.throughput},
                            {"is_enough", row.is_enough},
                            {"shape", format_shape(row.plan)}});
  return json;
}

}  // namespace

ordered_json migration_json(const api::MigrationSummary& migration, const Topology& topology) {
  ordered_json json = {{"bytes", std::ceil(migration.bytes)},
                       {"checkpoint_bytes", std::ceil(migration.checkpoint_bytes)}};
  if (migration.seconds) json["seconds"] = *migration.seconds;
  if (migration.usd > 0) json["egress_usd"] = migration.usd;
  json["devices"] = ordered_json::array();
  for (const api::MigrationSummary::Device& it : migration.devices)
    json["devices"].push_back({{"device", topology.devices[at(it.device)].id},
                               {"layers", it.layers},
                               {"bytes", std::ceil(it.bytes)},
                               {"checkpoint_bytes", std::ceil(it.checkpoint_bytes)},
                               {"from", api::source_names(it, topology)}});
  return json;
}

ordered_json changes_json(const std::vector<TargetChange>& changes) {
  ordered_json json = ordered_json::array();
  for (const TargetChange& it : changes) json.push_back({{"key", it.key}, {"from", it.from}, {"to", it.to}});
  return json;
}

ordered_json target_json(const api::TargetTime& it) {
  if (!it.obstacle.empty()) return {{"name", name_of(it.target)}, {"obstacle", it.obstacle}};
  return {{"name", name_of(it.target)},
          {"iteration_time_s", it.seconds},
          {"exceeds_memory", it.exceeds_memory},
          {"changes", changes_json(it.changes)}};
}

ordered_json decisions_json(const Plan& plan) {
  const ExecutionConfig& how = plan.execution;
  return {{"micro_batch", how.micro_batch},
          {"recompute", name_of(how.recomputation)},
          {"recompute_layers", how.recompute_layers.value_or(0)},
          {"schedule", name_of(how.schedule)},
          {"chunks", how.chunks.value_or(0)},
          {"flush", how.flush.value_or(0)},
          {"gradient_sync", name_of(how.gradient_sync)},
          {"optimizer_sharding", name_of(how.optimizer_sharding)},
          {"tensor", plan.tensor},
          {"context", how.context > 1 ? how.context : 0},
          {"context_exchange", how.context > 1 ? name_of(how.context_exchange) : "none"},
          {"expert", how.expert > 1 ? how.expert : 0},
          {"expert_dispatch", how.expert > 1 ? name_of(how.expert_dispatch) : "none"},
          {"activations", how.compression.activations},
          {"gradients", how.compression.gradients}};
}

std::vector<ordered_json> differing_decisions(const std::vector<api::Finalist>& finalists) {
  std::vector<ordered_json> all, differing(finalists.size(), ordered_json::object());
  for (const api::Finalist& it : finalists) all.push_back(decisions_json(it.candidate.plan));
  if (all.empty()) return {};
  for (const auto& item : all.front().items()) {
    const auto differs = [&](const ordered_json& other) { return other.at(item.key()) != item.value(); };
    if (std::none_of(all.begin(), all.end(), differs)) continue;
    for (std::size_t i = 0; i < all.size(); ++i) differing[i][item.key()] = all[i].at(item.key());
  }
  return differing;
}

ordered_json plan_document(const api::PlanAnswer& answer) {
  const Topology& topology = answer.problem.topology;
  const Job& job = answer.problem.job;
  const ModelInput input = model_input(job.model);
  const ObjectiveTexts& objective = texts(answer.objective, input);
  std::optional<double> period_s;
  if (answer.checkpoint_period && std::isfinite(answer.checkpoint_period->seconds))
    period_s = answer.checkpoint_period->seconds;
  ordered_json json = plan_json(topology, job, answer.plan, answer.objective, period_s);
  json["estimate"] = estimate_json(answer, input);
  if (answer.lower_bound) json["lower_bound"] = bound_json(*answer.lower_bound, objective);
  if (answer.explanation) json["explanation"] = explanation_json(answer, input);
  if (answer.smallest_cluster) json["smallest_cluster"] = smallest_cluster_json(*answer.smallest_cluster);
  if (answer.least_bandwidth)
    json["least_bandwidth"] = least_bandwidth_json(*answer.least_bandwidth, topology);
  if (answer.warm_start) json["warm_start"] = warm_start_json(*answer.warm_start, objective, topology);
  json["finalists"] = finalists_json(answer);
  if (!answer.fastest_undisturbed.empty())
    json["fastest_undisturbed"] = simulated_json(answer.fastest_undisturbed);
  if (answer.advice) json["advice"] = advice_json(*answer.advice);
  for (const api::TargetTime& it : answer.targets) json["targets"].push_back(target_json(it));
  if (answer.search) json["search"] = search_json(answer);
  if (answer.search && !answer.fits()) json["out_of_memory"] = out_of_memory_json(answer);
  if (const auto notes = notes_of(answer); !notes.empty()) json["warnings"] = notes;
  json["version"] = DTFM_VERSION;
  return json;
}

}  // namespace dtfm::io
