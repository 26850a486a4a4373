// What a trainer or launcher cannot express, found before anything is written, and said in one line: the fact
// and the way out.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/export/export_bundle.hpp"

namespace dtfm::exporter {

/// Throws Error "target: what".
[[noreturn]] void reject(std::string_view target, const std::string& what);

/// The way out where a trainer wants all pipelines alike.
inline constexpr const char* heterogeneous_hint = "use --to flashflex, or plan with --alike";

// Each throws Error where the plan is not so. `target` names the trainer as it is told.

/// As many stages in every pipeline.
void require_equal_depth(const ExportBundle& bundle, std::string_view target);
/// The same layers in each stage of every pipeline.
void require_same_layer_split(const ExportBundle& bundle, std::string_view target);
/// As many devices in every stage.
void require_one_tensor_degree(const ExportBundle& bundle, std::string_view target);
/// One device a stage.
void require_no_tensor_parallelism(const ExportBundle& bundle, std::string_view target);
/// Some micro-batches in every pipeline, together the global batch.
void require_full_global_batch(const ExportBundle& bundle, std::string_view target);
/// As many in every pipeline too.
void require_equal_micro_batches(const ExportBundle& bundle, std::string_view target);
/// Drains, where there are any within a step, after equal rounds of micro-batches. `alternative`: a way out
/// beside another flush.
void require_equal_flushes(const ExportBundle& bundle, std::string_view target, std::string_view alternative = "");
/// A layer at least in every stage.
void require_nonempty_stages(const ExportBundle& bundle, std::string_view target);
/// No virtual stages.
void require_no_chunks(const ExportBundle& bundle, std::string_view target);
/// A transformer.
const Transformer& require_transformer(const ExportBundle& bundle, std::string_view target);
/// Heads that the devices of every stage share evenly, as all tensor parallelism wants.
void require_divisible_heads(const ExportBundle& bundle, std::string_view target);
/// All but those about tensor degree and virtual stages: what most trainers want.
void require_uniform_pipelines(const ExportBundle& bundle, std::string_view target);

/// That the trainer runs schedule `own` without drains between, where the plan counts on something else.
std::vector<std::string> schedule_notes(const ExportBundle& bundle, std::string_view trainer_schedule);

/// Whether a Llama's modules are those of the model.
bool is_llama_like(const Transformer& model);

/// The first stage of all pipelines whose devices are on several machines; nothing: there is none.
std::optional<std::size_t> find_stage_across_machines(const ExportBundle& bundle);

/// Layers of each stage of a pipeline, as `3/2/2`.
std::string format_split(const Pipeline& pipeline);

// Of plans whose pipelines are alike.
int stage_count(const ExportBundle& bundle);
int replica_count(const ExportBundle& bundle);
/// Layers of each stage.
std::vector<int> layer_counts(const ExportBundle& bundle);
/// Layers [first, last) of each virtual stage, in the order of the model.
std::vector<std::pair<int, int>> virtual_stages(const ExportBundle& bundle);
int micro_batches_per_pipeline(const ExportBundle& bundle);
/// Micro-batches between two flushes: those of a step, or of a round of gradient accumulation.
int micro_batches_per_flush(const ExportBundle& bundle);
/// Devices of a stage.
int tensor_degree(const ExportBundle& bundle);

}  // namespace dtfm::exporter
