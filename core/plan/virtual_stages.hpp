// Layers of devices with several virtual stages. Under schedule `interleaved`, the layers [a, b) of a stage
// in a plan give only the number of its layers: its devices compute that many layers in `chunks` parts, with
// parts of the other stages in between (Narayanan et al., arXiv 2104.04473, section 2.2). The order of the
// stages determines which layers these are. The parts are equal unless Stage::virtual_layers has their sizes.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "core/plan/job.hpp"
#include "core/plan/plan.hpp"

namespace dtfm {

/// Virtual stages per device under the schedule: 1, except for `interleaved`.
int stage_chunks(const ExecutionConfig& execution);
inline int stage_chunks(const Job& job) {
  return stage_chunks(job.execution);
}

/// Distributes the layers of a stage over its chunks. `counts`, one per chunk, must add up to them. An even
/// split is not stored, so that equal plans compare equal.
void set_virtual_layers(Stage& stage, const std::vector<int>& counts);

/// Whether any stage distributes its layers by Stage::virtual_layers.
bool has_virtual_layers(const Plan& plan);
/// Returns `plan` with the layers of every stage split evenly over its chunks.
Plan without_virtual_layers(Plan plan);

/// Layers of each virtual stage of a pipeline, in the order in which micro-batches pass them: with `stages`
/// stages, element i is part i / stages of stage i % stages. Throws Error if a stage that is split evenly has
/// fewer layers than chunks. With several chunks, Stage::virtual_layers must fit them.
std::vector<std::pair<int, int>> virtual_stage_layers(const Pipeline& pipeline, int chunks);

/// The devices of a virtual stage.
inline const std::vector<int>& devices_of(const Pipeline& pipeline, std::size_t virtual_stage) {
  return pipeline.stages[virtual_stage % pipeline.stages.size()].devices;
}

/// Returns `plan` with the stages that are actually computed: under schedule `interleaved` its virtual
/// stages, otherwise `plan` itself. The layers of each device are cut into `chunks` parts, and part c of
/// device d of p is stage c · p + d. Throws Error as virtual_stage_layers does.
Plan expand_virtual_stages(const Plan& plan);

/// The same layers by stage of the plan: one range per chunk, in order. Throws Error in the same cases.
std::vector<std::vector<std::pair<int, int>>> layers_by_stage(const Pipeline& pipeline, int chunks);

}  // namespace dtfm
