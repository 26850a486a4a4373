// Checks of what a trainer or launcher can express, made before any file is written. An error is one line:
// the problem, then the fix.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/export/export_bundle.hpp"

namespace dtfm::exporter {

/// Throws Error with the message "TARGET: WHAT".
[[noreturn]] void reject(std::string_view target, const std::string& what);

/// The fix suggested when a trainer requires uniform pipelines.
inline constexpr const char* heterogeneous_hint = "use --to flashflex, or plan with --uniform-pipelines";

// Each of these throws Error if the plan violates the requirement. `target` is the name of the target in the
// message.

/// All pipelines have the same number of stages.
void require_equal_depth(const ExportBundle& bundle, std::string_view target);
/// All pipelines split the layers into stages in the same way.
void require_same_layer_split(const ExportBundle& bundle, std::string_view target);
/// All stages have the same number of devices.
void require_one_tensor_degree(const ExportBundle& bundle, std::string_view target);
/// Every stage has one device.
void require_no_tensor_parallelism(const ExportBundle& bundle, std::string_view target);
/// Every pipeline has at least one micro-batch, and all together make up the global batch.
void require_full_global_batch(const ExportBundle& bundle, std::string_view target);
/// All pipelines have the same number of micro-batches, which make up the global batch.
void require_equal_micro_batches(const ExportBundle& bundle, std::string_view target);
/// Flushes within an iteration, if any, split its micro-batches into equal rounds. `alternative` is appended
/// to the suggested fix.
void require_equal_flushes(const ExportBundle& bundle, std::string_view target,
                           std::string_view alternative = "");
/// Every stage has at least one layer.
void require_nonempty_stages(const ExportBundle& bundle, std::string_view target);
/// The schedule has no virtual stages.
void require_no_chunks(const ExportBundle& bundle, std::string_view target);
/// The model is a transformer, which is returned.
const Transformer& require_transformer(const ExportBundle& bundle, std::string_view target);
/// The number of attention heads is a multiple of the tensor-parallel degree of every stage.
void require_divisible_heads(const ExportBundle& bundle, std::string_view target);
/// Equal depth, layer split and micro-batches, as most trainers require.
void require_uniform_pipelines(const ExportBundle& bundle, std::string_view target);

/// Notes for a plan whose schedule computes in another order than `trainer_schedule`, or flushes within an
/// iteration.
std::vector<std::string> schedule_notes(const ExportBundle& bundle, Schedule trainer_schedule);

/// Whether the model has the modules of Llama: RMS norm, a gated feed-forward network, no learned positions.
bool is_llama_like(const Transformer& model);

/// Index within its pipeline of the first stage whose devices are on several machines, if there is one.
std::optional<std::size_t> find_stage_across_machines(const ExportBundle& bundle);

/// Number of layers of each stage of a pipeline, such as `3/2/2`.
std::string format_split(const Pipeline& pipeline);

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

}  // namespace dtfm::exporter
