// Computations and messages of one pipeline.
#pragma once

#include <string>
#include <vector>

#include "core/plan/plan.hpp"
#include "simulator/lowering/graph_builder.hpp"
#include "simulator/model/stage_load.hpp"

namespace dtfm::sim {

/// The tasks that end a pipeline's part of an iteration; no_index where there is none.
struct PipelineEndTasks {
  /// [layer][rank]: the task after which the gradients of the layer can be synchronized.
  std::vector<std::vector<int>> gradients;
  std::vector<std::vector<int>> last;  // [stage of the plan][rank]: the last task of this device
};

/// Adds the tasks of pipeline `number` of `plan`, a result of expand_virtual_stages. Throws Error for a
/// schedule that cannot be run.
PipelineEndTasks add_pipeline(GraphBuilder& builder, const LoadModel& model, const Job& job, const Plan& plan,
                              int number);

}  // namespace dtfm::sim
