#include "planner/api/io/plan_document.hpp"

#include <cmath>

#include <nlohmann/json.hpp>

#include "planner/core/index.hpp"
#include "planner/io/writers/plan_json.hpp"

namespace dtfm::io {
namespace {

using nlohmann::ordered_json;

/// JSON cannot represent infinity, so it becomes null.
ordered_json finite_or_null(double value) {
  return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
}

void add_iteration(const PlanRecord::IterationEstimate& estimate, const Topology& topology,
                   ordered_json& json) {
  json["iteration_time_s"] = estimate.iteration_time_s;
  json["tokens_per_s"] = estimate.tokens_per_s;
  json["model_flops_per_s"] = estimate.model_flops_per_s;
  json["cost_per_million_tokens"] = estimate.cost_per_million_tokens
                                        ? ordered_json(*estimate.cost_per_million_tokens)
                                        : ordered_json(nullptr);
  if (estimate.cost_per_million_tokens)
    json["cost_parts"] = {{"devices", *estimate.cost_per_million_tokens - estimate.egress_per_million_tokens},
                          {"egress", estimate.egress_per_million_tokens}};
  json["breakdown"] = ordered_json::object();
  for (const auto& [name, seconds] : estimate.breakdown_s) json["breakdown"][name] = seconds;
  json["memory"] = ordered_json::array();
  for (const auto& it : estimate.memory)
    json["memory"].push_back({{"device", topology.devices[at(it.device)].id},
                              {"needed_bytes", std::ceil(it.needed_bytes)},
                              {"capacity_bytes", it.capacity_bytes}});
}

ordered_json finalist_json(const PlanRecord::Finalist& finalist) {
  ordered_json simulated = ordered_json::object();
  for (const auto& it : finalist.simulated)
    simulated[it.scenario] = {{"mean_s", finite_or_null(it.mean_s)},
                              {"p95_s", finite_or_null(it.p95_s)},
                              {"max_s", finite_or_null(it.max_s)}};
  ordered_json json = {{"pipeline", finalist.pipeline},
                       {"data", finalist.data},
                       {"tensor", finalist.tensor},
                       {"devices", finalist.devices},
                       {"iteration_time_s", finalist.iteration_time_s}};
  if (finalist.migration_s) json["migration_s"] = *finalist.migration_s;
  json["simulated"] = std::move(simulated);
  if (!finalist.decisions.empty()) json["decisions"] = decisions_json(finalist.decisions);
  return json;
}

ordered_json number_or_null(const std::optional<double>& value) {
  return value ? finite_or_null(*value) : ordered_json(nullptr);
}

ordered_json advice_json(const PlanRecord::Advice& advice) {
  return {{"plan", finalist_json(advice.plan)},
          {"decisions", advice.decisions},
          {"gain", number_or_null(advice.gain)}};
}

ordered_json estimate_json(const PlanRecord& record, const Topology& topology) {
  ordered_json json = ordered_json::object();
  if (record.iteration) add_iteration(*record.iteration, topology, json);
  if (record.interval)
    json["iteration_time_interval_s"] = {{"low", record.interval->low_s},
                                         {"high", record.interval->high_s},
                                         {"level", record.interval->level}};
  if (record.comm_cost) {
    const auto [data, pipeline] = *record.comm_cost;
    json["comm_cost"] = {
        {"data_parallel_s", data}, {"pipeline_parallel_s", pipeline}, {"total_s", data + pipeline}};
  }
  return json;
}

ordered_json bound_json(const PlanRecord::Bound& bound) {
  return {{"value", bound.value}, {"unit", bound.unit}, {"gap", bound.gap}, {"method", bound.method}};
}

ordered_json search_json(const PlanRecord::Search& search) {
  ordered_json convergence = ordered_json::array();
  for (const auto& [evaluations, cost] : search.convergence)
    convergence.push_back(ordered_json::array({evaluations, cost}));
  return {{"strategy", search.strategy},
          {"seed", search.seed},
          {"evaluations", search.evaluations},
          {"stopped", search.stopped},
          {"convergence", std::move(convergence)}};
}

ordered_json performance_json(const PlanRecord::Explanation::Performance& performance) {
  return {{"iteration_time_s", finite_or_null(performance.iteration_time_s)},
          {"tokens_per_s", performance.tokens_per_s},
          {"model_flops_per_s", performance.model_flops_per_s},
          {"compute_s", performance.compute_s},
          {"sending_s", performance.sending_s},
          {"gradient_sync_s", performance.sync_s},
          {"fits", performance.fits}};
}

ordered_json change_json(const PlanRecord::Explanation::Change& change) {
  ordered_json json = {{"change", change.change}, {"description", change.text}};
  if (!change.impossible.empty()) {
    json["impossible"] = change.impossible;
    return json;
  }
  json["iteration_time_s"] = finite_or_null(change.iteration_time_s);
  json["gain"] = finite_or_null(change.gain);
  json["fits"] = change.fits;
  return json;
}

ordered_json resource_json(const PlanRecord::Explanation::PipelineResource& resource) {
  return {{"kind", resource.is_hop ? "hop" : "stage"},
          {"pipeline", resource.pipeline},
          {"stage", resource.stage},
          {"seconds", resource.seconds},
          {"latency_s", resource.latency_s}};
}

ordered_json explanation_json(const PlanRecord::Explanation& explanation, const Topology& topology) {
  ordered_json json = {
      {"summary", explanation.bottleneck_summary},
      {"bottleneck",
       {{"kind", explanation.dominant}, {"seconds", explanation.seconds}, {"share", explanation.share}}},
      {"resource", resource_json(explanation.resource)},
      {"parts", ordered_json::object()}};
  for (const auto& [name, seconds] : explanation.parts_s) json["parts"][name] = seconds;
  if (const auto& it = explanation.peak_memory)
    json["peak_memory"] = {{"device", topology.devices[at(it->device)].id},
                           {"needed_bytes", std::ceil(it->needed_bytes)},
                           {"capacity_bytes", it->capacity_bytes},
                           {"state_bytes", std::ceil(it->state_bytes)}};
  json["changes"] = ordered_json::array();
  for (const auto& change : explanation.changes) json["changes"].push_back(change_json(change));
  json["scaling"] = explanation.scaling;
  json["now"] = performance_json(explanation.now);
  if (explanation.double_width) json["double_width"] = performance_json(*explanation.double_width);
  json["compute_bound"] = {{"compression", number_or_null(explanation.compute_bound_compression)},
                           {"width", number_or_null(explanation.compute_bound_width)}};
  return json;
}

ordered_json warm_start_json(const PlanRecord::WarmStart& warm) {
  ordered_json json = {{"plan", warm.plan}, {"horizon_s", warm.horizon_s}, {"keeps_plan", warm.keeps_plan}};
  if (!warm.cannot_keep_reason.empty()) json["cannot_keep_reason"] = warm.cannot_keep_reason;
  json["unchanged_iteration_time_s"] = number_or_null(warm.unchanged_iteration_time_s);
  json["gain"] = nullptr;
  if (const auto& gain = warm.gain)
    json["gain"] = {{"value", gain->value}, {"unchanged", gain->unchanged}, {"unit", gain->unit}};
  json["break_even_iterations"] = number_or_null(warm.break_even_iterations);
  json["migration"] = migration_json(warm.migration);
  return json;
}

}  // namespace

ordered_json migration_json(const PlanRecord::Migration& migration) {
  ordered_json json = {{"bytes", std::ceil(migration.bytes)},
                       {"checkpoint_bytes", std::ceil(migration.checkpoint_bytes)}};
  if (migration.seconds) json["seconds"] = *migration.seconds;
  if (migration.usd > 0) json["egress_usd"] = migration.usd;
  json["devices"] = ordered_json::array();
  for (const auto& it : migration.devices) {
    ordered_json layers = ordered_json::array();
    for (const auto& [first, last] : it.layers) layers.push_back({first, last});
    json["devices"].push_back({{"device", it.id},
                               {"layers", std::move(layers)},
                               {"bytes", std::ceil(it.bytes)},
                               {"checkpoint_bytes", std::ceil(it.checkpoint_bytes)},
                               {"from", it.from}});
  }
  return json;
}

ordered_json decisions_json(const std::vector<PlanRecord::Decision>& decisions) {
  ordered_json json = ordered_json::object();
  for (const auto& [name, value] : decisions)
    std::visit([&json, &key = name](const auto& it) { json[key] = it; }, value);
  return json;
}

ordered_json plan_document(const Topology& topology, const Job& job, const Plan& plan,
                           const PlanRecord& record) {
  ordered_json json = plan_json(topology, job, plan, record.objective);
  json["estimate"] = estimate_json(record, topology);
  if (record.lower_bound) json["lower_bound"] = bound_json(*record.lower_bound);
  if (record.explanation) json["explanation"] = explanation_json(*record.explanation, topology);
  if (record.warm_start) json["warm_start"] = warm_start_json(*record.warm_start);
  json["finalists"] = ordered_json::array();
  for (const PlanRecord::Finalist& finalist : record.finalists)
    json["finalists"].push_back(finalist_json(finalist));
  if (record.advice) json["advice"] = advice_json(*record.advice);
  if (record.search) json["search"] = search_json(*record.search);
  if (!record.warnings.empty()) json["warnings"] = record.warnings;
  json["version"] = record.version;
  return json;
}

}  // namespace dtfm::io
