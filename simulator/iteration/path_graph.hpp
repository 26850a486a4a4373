// Computations and messages of micro-batches that each follow their own path over the devices of a plan.
#pragma once

#include <vector>

#include "core/plan/plan.hpp"
#include "core/schedule/path_schedule.hpp"
#include "simulator/iteration/pipeline_graph.hpp"
#include "simulator/lowering/graph_builder.hpp"
#include "simulator/model/stage_load.hpp"

namespace dtfm::sim {

/// Adds the tasks of all micro-batches of `paths`. Every stage of `plan` must have exactly one device. As in
/// pipelines, a message is sent as soon as it is computed, and the gradients of a stage can be synchronized
/// when it has sent the result of its last backward. Returns the end tasks by pipeline.
std::vector<PipelineEndTasks> add_paths(GraphBuilder& builder, const LoadModel& model, const Plan& plan,
                                        const PathSchedule& paths);

}  // namespace dtfm::sim
