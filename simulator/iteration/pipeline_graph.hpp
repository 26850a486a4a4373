// The computations and messages of one pipeline.
#pragma once

#include <string>
#include <vector>

#include "planner/core/plan.hpp"
#include "simulator/lowering/graph_builder.hpp"
#include "simulator/model/stage_load.hpp"

namespace dtfm::sim {

/// The ends of a pipeline's work in an iteration; no_index where there is none.
struct PipelineEndTasks {
  std::vector<std::vector<int>>
      gradients;                       // [layer][rank]: the task after which its gradients can be exchanged
  std::vector<std::vector<int>> last;  // of each device: [stage of the plan][rank]
};

/// Adds the tasks of pipeline `number` of `plan`, whose stages are the computed ones. Throws Error for a
/// schedule that cannot be run.
PipelineEndTasks add_pipeline(GraphBuilder& builder, const LoadModel& model, const Job& job, const Plan& plan,
                              int number);

}  // namespace dtfm::sim
