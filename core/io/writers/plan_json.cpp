#include "core/io/writers/plan_json.hpp"

#include <nlohmann/json.hpp>

#include "core/base/index.hpp"
#include "core/io/text/pass_order.hpp"

namespace dtfm::io {
namespace {

using nlohmann::ordered_json;

class PlanWriter {
 public:
  PlanWriter(const Topology& topology, const Plan& plan) : topology_(topology), plan_(plan) {}

  ordered_json pipelines() const {
    ordered_json json = ordered_json::array();
    for (const Pipeline& pipeline : plan_.pipelines) {
      ordered_json stages = ordered_json::array();
      for (const Stage& stage : pipeline.stages) {
        stages.push_back(
            {{"layers", {stage.layers.first, stage.layers.second}}, {"devices", ids(stage.devices)}});
        if (!stage.virtual_layers.empty()) stages.back()["virtual_layers"] = stage.virtual_layers;
        if (stage.warm_up && traits(plan_.execution.schedule).has_planned_warm_up)
          stages.back()["warm_up"] = *stage.warm_up;
        if (!stage.passes.empty() && traits(plan_.execution.schedule).has_planned_passes)
          stages.back()["passes"] = format_passes(stage.passes);
        const RecomputationTraits& recomputation = traits(plan_.execution.recomputation);
        if (stage.recompute_layers && recomputation.is_per_stage())
          stages.back()[recomputation.layers_name] = *stage.recompute_layers;
      }
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
    ordered_json json = {
        {"pipeline", depth(plan_)}, {"data", plan_.pipelines.size()}, {"tensor", plan_.tensor}};
    json.update(plan_summary_json(plan_.execution));
    return json;
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

}  // namespace

ordered_json plan_json(const Topology& topology, const Job& job, const Plan& plan, Objective objective,
                       std::optional<double> checkpoint_period_s) {
  const PlanWriter writer(topology, plan);
  ordered_json json = {{"schema", "dtfm-plan/1"},
                       {"topology", {{"name", topology.name}, {"fingerprint", topology.fingerprint()}}},
                       {"job", job_json(job)},
                       {"objective", name_of(objective)},
                       {"parallelism", writer.parallelism()},
                       {"execution", execution_json(plan.execution)},
                       {"pipelines", writer.pipelines()},
                       {"groups", writer.groups()},
                       {"ranks", writer.ranks()},
                       {"unused", writer.unused()}};
  if (checkpoint_period_s) json["recovery"] = {{"checkpoint_period_s", *checkpoint_period_s}};
  return json;
}

}  // namespace dtfm::io
