// Layers of a device that has several virtual stages. A plan gives every stage a number of layers [a, b);
// under schedule `interleaved` its devices compute as many layers in `chunks` parts, with parts of the other
// stages in between (Narayanan et al., arXiv 2104.04473, section 2.2). Which layers those are follows from
// the order of the stages.
#pragma once

#include <utility>
#include <vector>

#include "planner/core/job.hpp"
#include "planner/core/plan.hpp"

namespace dtfm {

/// Virtual stages per device under the job's schedule: 1, except for `interleaved`.
int stage_chunks(const Job& job);

/// Layers of each virtual stage of a pipeline, in the order in which micro-batches pass them: with `stages`
/// stages, element i is part i / stages of stage i % stages. Throws Error if a stage has fewer layers than
/// chunks.
std::vector<std::pair<int, int>> virtual_stage_layers(const Pipeline& pipeline, int chunks);

/// The same by stage: as many ranges as chunks, in order; a stage without layers has one empty range.
std::vector<std::vector<std::pair<int, int>>> layers_by_stage(const Pipeline& pipeline, int chunks);

}  // namespace dtfm
