// What a trainer or launcher cannot express, found before anything is written, and said in one line: the fact
// and the way out.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/export/handover.hpp"

namespace dtfm::exporter {

/// Throws Error "target: what".
[[noreturn]] void refuse(std::string_view target, const std::string& what);

/// The way out where a trainer wants all pipelines alike.
inline constexpr const char* other_trainer = "use --to flashflex, or plan with --alike";

// Each throws Error where the plan is not so. `target` names the trainer as it is told.

/// As many stages in every pipeline.
void require_equal_depth(const Handover& handover, std::string_view target);
/// The same layers in each stage of every pipeline.
void require_common_split(const Handover& handover, std::string_view target);
/// As many devices in every stage.
void require_one_degree(const Handover& handover, std::string_view target);
/// One device a stage.
void require_no_tensor(const Handover& handover, std::string_view target);
/// Some micro-batches in every pipeline, together the global batch.
void require_whole_batch(const Handover& handover, std::string_view target);
/// As many in every pipeline too.
void require_equal_micro_batches(const Handover& handover, std::string_view target);
/// Drains, where there are any within a step, after equal rounds of micro-batches. `or_else`: a way out
/// beside another flush.
void require_equal_rounds(const Handover& handover, std::string_view target, std::string_view or_else = "");
/// A layer at least in every stage.
void require_layers_everywhere(const Handover& handover, std::string_view target);
/// No virtual stages.
void require_no_chunks(const Handover& handover, std::string_view target);
/// A transformer.
const Transformer& require_transformer(const Handover& handover, std::string_view target);
/// Heads that the devices of every stage share evenly, as all tensor parallelism wants.
void require_whole_heads(const Handover& handover, std::string_view target);
/// All but those about tensor degree and virtual stages: what most trainers want.
void require_alike(const Handover& handover, std::string_view target);

/// That the trainer runs schedule `own` without drains between, where the plan counts on something else.
std::vector<std::string> schedule_notes(const Handover& handover, std::string_view own);

/// Whether a Llama's modules are those of the model.
bool is_like_llama(const Transformer& model);

/// The first stage of all pipelines whose devices are on several machines; nothing: there is none.
std::optional<std::size_t> stage_over_machines(const Handover& handover);

/// Layers of each stage of a pipeline, as `3/2/2`.
std::string split_text(const Pipeline& pipeline);

// Of plans whose pipelines are alike.
int stages_of(const Handover& handover);
int replicas_of(const Handover& handover);
/// Layers of each stage.
std::vector<int> layer_counts(const Handover& handover);
/// Layers [first, last) of each virtual stage, in the order of the model.
std::vector<std::pair<int, int>> virtual_stages(const Handover& handover);
int micro_batches_of(const Handover& handover);
/// Micro-batches between two flushes: those of a step, or of a round of gradient accumulation.
int round_of(const Handover& handover);
/// Devices of a stage.
int degree_of(const Handover& handover);

}  // namespace dtfm::exporter
