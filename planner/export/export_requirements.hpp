// What exporters ask about a bundle, and how they reject one. What targets require of plans is in
// core/plan/target_requirements.hpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/plan/target_requirements.hpp"
#include "planner/export/export_bundle.hpp"

namespace dtfm::exporter {

/// Throws NotRunnable with the message "TARGET: WHAT", where WHAT is the problem, then the fix.
[[noreturn]] void reject(std::string_view target, const std::string& what);

/// Index within its pipeline of the first stage whose devices are on several machines, if there is one.
std::optional<std::size_t> find_stage_across_machines(const ExportBundle& bundle);

/// Whether the gradients go around rings, as planned, only if NCCL is told so.
bool uses_nccl_rings(const ExportBundle& bundle);

/// Moves pipelines at the same sites next to each other, because trainers with NCCL divide consecutive
/// replicas among the instances of a sharded optimizer. Throws NotRunnable without a topology.
void group_instances(ExportBundle& bundle);

// The following functions require uniform pipelines: they read the first one.
int stage_count(const ExportBundle& bundle);
int replica_count(const ExportBundle& bundle);
/// Number of layers of each stage.
std::vector<int> layer_counts(const ExportBundle& bundle);
/// Layers [first, last) of each virtual stage, in model order.
std::vector<std::pair<int, int>> virtual_stages(const ExportBundle& bundle);
int micro_batches_per_pipeline(const ExportBundle& bundle);
/// Micro-batches between two pipeline flushes; without flushes within an iteration, those of the iteration.
int micro_batches_per_flush(const ExportBundle& bundle);
/// Devices per stage.
int tensor_degree(const ExportBundle& bundle);
/// Instances of a sharded optimizer, each of consecutive replicas. Throws NotRunnable if they depend on the
/// topology and the bundle has none.
int instance_count(const ExportBundle& bundle);

}  // namespace dtfm::exporter
