#include "planner/io/plan_json.hpp"

#include <nlohmann/json.hpp>

#include "planner/core/index.hpp"
#include "planner/io/json_text.hpp"

namespace dtfm {
namespace {

using nlohmann::ordered_json;

class PlanWriter {
 public:
  PlanWriter(const Topology& topology, const Plan& plan) : topology_(topology), plan_(plan) {}

  ordered_json pipelines() const {
    ordered_json json = ordered_json::array();
    for (const Pipeline& pipeline : plan_.pipelines) {
      ordered_json stages = ordered_json::array();
      for (const Stage& stage : pipeline.stages)
        stages.push_back(
            {{"layers", {stage.layers.first, stage.layers.second}}, {"devices", ids(stage.devices)}});
      json.push_back({{"micro_batches", pipeline.micro_batches}, {"stages", std::move(stages)}});
    }
    return json;
  }

  ordered_json groups() const {
    ordered_json json = ordered_json::array();
    for (const auto& group : stage_groups(plan_)) json.push_back(ids(group));
    return json;
  }

  ordered_json ranks() const {
    return {{"pipeline_major", ids(pipeline_major(plan_))}, {"stage_major", ids(stage_major(plan_))}};
  }

  ordered_json unused() const {
    std::vector<bool> used(topology_.devices.size());
    for (const int device : pipeline_major(plan_)) used[at(device)] = true;
    ordered_json json = ordered_json::array();
    for (std::size_t device = 0; device < used.size(); ++device)
      if (!used[device]) json.push_back(topology_.devices[device].id);
    return json;
  }

  ordered_json parallelism() const {
    return {{"pipeline", depth(plan_)},
            {"data", plan_.pipelines.size()},
            {"tensor", plan_.tensor},
            {"schedule", plan_.schedule},
            {"gradient_sync", plan_.gradient_sync}};
  }

 private:
  ordered_json ids(const std::vector<int>& devices) const {
    ordered_json json = ordered_json::array();
    for (const int device : devices) json.push_back(topology_.devices[at(device)].id);
    return json;
  }

  const Topology& topology_;
  const Plan& plan_;
};

ordered_json estimate_json(const PlanRecord& record) {
  ordered_json json = ordered_json::object();
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

}  // namespace

std::string plan_json(const Topology& topology, const Job& job, const Plan& plan, const PlanRecord& record) {
  const PlanWriter writer(topology, plan);
  ordered_json json = {{"schema", "dtfm-plan/1"},
                       {"topology", {{"name", topology.name}, {"fingerprint", topology.fingerprint()}}},
                       {"job", job_json(job)},
                       {"objective", record.objective},
                       {"parallelism", writer.parallelism()},
                       {"pipelines", writer.pipelines()},
                       {"groups", writer.groups()},
                       {"ranks", writer.ranks()},
                       {"unused", writer.unused()},
                       {"estimate", estimate_json(record)}};
  if (record.lower_bound) json["lower_bound"] = bound_json(*record.lower_bound);
  json["finalists"] = ordered_json::array();
  if (record.search) json["search"] = search_json(*record.search);
  if (!record.warnings.empty()) json["warnings"] = record.warnings;
  json["version"] = record.version;
  return json_text(json);
}

}  // namespace dtfm
