#include "core/plan/scalar_reductions.hpp"

#include <algorithm>

#include "core/base/index.hpp"

namespace dtfm {
namespace {

ScalarRoute around(ScalarRoute members) {
  const std::size_t count = members.size();
  for (std::size_t i = 0; i + 1 < count; ++i) members.push_back(members[i]);
  return members;
}

ScalarReduction over_stages(const Plan& plan) {
  ScalarReduction reduction;
  for (const Pipeline& pipeline : plan.pipelines) {
    ScalarRoute members;
    for (const Stage& stage : pipeline.stages) members.push_back(stage.devices.front());
    reduction.routes.push_back(around(std::move(members)));
  }
  return reduction;
}

/// Among the replicas of stage `from_last`, counted from the last one.
ScalarRoute over_replicas(const Plan& plan, std::size_t from_last) {
  ScalarRoute members;
  for (const Pipeline& pipeline : plan.pipelines)
    if (from_last < pipeline.stages.size())
      members.push_back(pipeline.stages[pipeline.stages.size() - 1 - from_last].devices.front());
  return around(std::move(members));
}

}  // namespace

// DeepSpeed 0.19: runtime/pipe/engine.py (_aggregate_total_loss), runtime/zero/stage_1_and_2.py
// (get_grad_norm_direct, has_overflow), runtime/bf16_optimizer.py, runtime/fp16.
ScalarReductions scalar_reductions(const Job& job, const Plan& plan) {
  ScalarReductions result;
  const OptimizerShardingTraits& sharding = traits(plan.execution.optimizer_sharding);
  if (!traits(plan.execution.messaging).reduces_scalars || sharding.gradients) return result;
  result.loss = over_replicas(plan, 0);

  const Precision precision = job.training.precision;
  const bool has_16_bits = traits(precision).bytes_per_element == 2;
  // bf16 with fp32 gradients runs another optimizer, which checks no overflow and holds all gradients.
  const bool holds_all = precision == Precision::bf16 && traits(job.training.optimizer).accumulates_fp32;
  if (!has_16_bits && !sharding.optimizer) return result;  // no norm
  const int count = has_16_bits && !holds_all ? 2 : 1;
  if (sharding.optimizer && !holds_all) {
    ScalarReduction replicas{{}, count};
    for (std::size_t from_last = 0; from_last < plan.pipelines.front().stages.size(); ++from_last)
      replicas.routes.push_back(over_replicas(plan, from_last));
    result.norms.push_back(std::move(replicas));
  }
  result.norms.push_back(over_stages(plan));
  result.norms.back().count = count;
  return result;
}

}  // namespace dtfm
