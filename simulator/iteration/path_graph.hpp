// The computations and messages of micro-batches that each have a way of their own.
#pragma once

#include <vector>

#include "planner/core/plan.hpp"
#include "planner/core/schedule/path_schedule.hpp"
#include "simulator/iteration/pipeline_graph.hpp"
#include "simulator/lowering/graph_builder.hpp"
#include "simulator/model/stage_load.hpp"

namespace dtfm::sim {

/// Adds what `paths` says about `plan`, whose stages have one device each. As in pipelines, a message is sent
/// as soon as it is there, and gradients of a place can be exchanged when it has sent on what its last
/// backward says. Returns the ends of each pipeline.
std::vector<PipelineEndTasks> add_paths(GraphBuilder& builder, const LoadModel& model, const Plan& plan,
                                        const PathSchedule& paths);

}  // namespace dtfm::sim
