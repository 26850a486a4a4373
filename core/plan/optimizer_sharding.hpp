// Which model state the replicas of a layer partition among each other (ZeRO: Rajbhandari et al., arXiv
// 1910.02054).
#pragma once

#include <span>
#include <string_view>

namespace dtfm {

struct ExecutionConfig;
struct Plan;

enum class OptimizerSharding : unsigned char {
  none,   // every replica holds all state of its layers
  zero1,  // optimizer state is partitioned
  zero2,  // gradients too
  zero3   // parameters too (FSDP)
};

struct OptimizerShardingTraits {
  OptimizerSharding kind;
  std::string_view name;
  bool optimizer = false;   // partitions the optimizer state: all but weights, gradients
  bool gradients = false;   // partitions gradients, which are reduce-scattered after every micro-batch
  bool parameters = false;  // partitions weights, which are all-gathered before every pass
};

/// A row for each value, in the order of the enum.
std::span<const OptimizerShardingTraits> optimizer_sharding_table();
const OptimizerShardingTraits& traits(OptimizerSharding sharding);
std::string_view name_of(OptimizerSharding sharding);

/// Whether the sharding can run with the gradient synchronization and the schedule of `execution`.
bool can_shard(const ExecutionConfig& execution);

/// Throws Error if a sharding cannot run with the gradient synchronization or the schedule of `execution`.
/// The message names the fix.
void check_optimizer_sharding(const ExecutionConfig& execution);
/// The same for the simulator, which also runs zero3 with `hierarchical`. Also throws Error if gradients are
/// partitioned, but a pipeline is not a single stage on a single device.
void check_optimizer_sharding(const Plan& plan);

}  // namespace dtfm
