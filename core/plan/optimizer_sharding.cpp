#include "core/plan/optimizer_sharding.hpp"

#include <string>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/kind_table.hpp"
#include "core/plan/plan.hpp"

namespace dtfm {
namespace {

constexpr auto optimizer_shardings = std::to_array<OptimizerShardingTraits>({
    {.kind = OptimizerSharding::none, .name = "none"},
    {.kind = OptimizerSharding::zero1, .name = "zero1", .optimizer = true},
    {.kind = OptimizerSharding::zero2, .name = "zero2", .optimizer = true, .gradients = true},
    {.kind = OptimizerSharding::zero3,
     .name = "zero3",
     .optimizer = true,
     .gradients = true,
     .parameters = true},
});
static_assert(has_row_for_each(optimizer_shardings, OptimizerSharding::zero3));

/// Why the sharding cannot run; empty if it can. Only schemes run zero3 with `hierarchical`.
std::string conflict(const ExecutionConfig& execution, bool is_scheme) {
  const OptimizerShardingTraits& sharding = traits(execution.optimizer_sharding);
  if (!sharding.optimizer) return "";
  const bool is_hybrid = traits(execution.gradient_sync).roles == MemberRoles::by_site;
  if (is_scheme && is_hybrid && sharding.parameters) return "";
  const GradientSyncTraits& sync = traits(execution.gradient_sync);
  const bool shards_gradients = sync.roles == MemberRoles::equal || sync.roles == MemberRoles::ring;
  if (!sync.has_halves || (sharding.gradients && !shards_gradients))
    return fmt::format("{} cannot be combined with gradient_sync {}; use ring{} sharded-ps{}", sharding.name,
                       name_of(execution.gradient_sync), sharding.gradients ? " or" : ",",
                       sharding.gradients ? "" : " or hierarchical");
  if ((sharding.gradients || is_hybrid) && traits(execution.schedule).has_chunks)
    return fmt::format("{}{} cannot be combined with schedule {}; use 1f1b", sharding.name,
                       is_hybrid ? " with gradient_sync hierarchical" : "", name_of(execution.schedule));
  if (sharding.gradients && traits(execution.recomputation).offloads)  // one micro-batch is in flight
    return fmt::format("{} cannot be combined with recompute {}; use full", sharding.name,
                       name_of(execution.recomputation));
  return "";
}

}  // namespace

std::span<const OptimizerShardingTraits> optimizer_sharding_table() {
  return optimizer_shardings;
}

const OptimizerShardingTraits& traits(OptimizerSharding sharding) {
  return row_of(optimizer_shardings, sharding);
}

std::string_view name_of(OptimizerSharding sharding) {
  return traits(sharding).name;
}

bool can_shard(const ExecutionConfig& execution) {
  return conflict(execution, false).empty();
}

void check_optimizer_sharding(const ExecutionConfig& execution) {
  if (const std::string what = conflict(execution, false); !what.empty()) throw Error("", what);
}

void check_optimizer_sharding(const Plan& plan) {
  if (const std::string what = conflict(plan.execution, true); !what.empty()) throw Error("", what);
  if (!traits(plan.execution.optimizer_sharding).gradients) return;
  for (const Pipeline& pipeline : plan.pipelines)
    if (pipeline.stages.size() != 1 || pipeline.stages.front().devices.size() != 1)
      throw Error("", fmt::format("{} requires that every pipeline is one stage on one device",
                                  name_of(plan.execution.optimizer_sharding)));
}

}  // namespace dtfm
