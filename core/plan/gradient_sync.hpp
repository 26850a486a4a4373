// How the replicas of a stage synchronize their gradients.
#pragma once

#include <span>
#include <string_view>

namespace dtfm {

enum class GradientSync : unsigned char {
  sharded_ps,    // parameter servers: every replica sums a shard
  central_ps,    // one of the replicas sums everything
  ring,          // reduce-scatter and all-gather around a ring
  tree,          // a binomial tree to one replica, and back
  hierarchical,  // inside sites first, then in rings across sites
  none,          // every replica updates with its own gradients
};

struct GradientSyncTraits {
  GradientSync kind;
  std::string_view name;
  bool in_jobs = false;        // a job may name it; only schemes and the simulator use the others
  bool is_candidate = false;   // the planner tries it if the job says `auto`
  bool is_ordered = false;     // its time depends on the order of the pipelines
  bool uses_channels = false;  // messages between hosts are sent in parts (HostChannels)
  /// Splits into a reduce-scatter and an all-gather. A sharded optimizer updates between the two.
  bool has_halves = false;
};

/// A row for each value, in the order of the enum.
std::span<const GradientSyncTraits> gradient_sync_table();
const GradientSyncTraits& traits(GradientSync sync);
std::string_view name_of(GradientSync sync);

}  // namespace dtfm
