// How many forwards each stage computes before its first backward under eager-1f1b.
#pragma once

#include <vector>

#include "core/plan/plan.hpp"
#include "planner/cost/iteration_time/iteration_model.hpp"
#include "planner/cost/iteration_time/pipeline_time.hpp"

namespace dtfm::cost {

/// Maximum cycle mean, per micro-batch, of a pipeline whose stages alternate one forward and one backward
/// after these warm-ups, which must become shorter from each stage to the next.
double alternating_steady_s(const PipelineWork& work, const std::vector<int>& warm_ups);

/// The warm-ups of 1F1B: as many forwards as stages follow.
std::vector<int> shortest_warm_ups(int stages);

/// The shortest warm-ups with which the steady state is as short as `work.max_warm_ups` allow (or those of
/// shortest_warm_ups, where these are longer). Messages are then hidden as far as possible.
std::vector<int> choose_warm_ups(const PipelineWork& work);

/// The plan with the warm-ups that its estimate assumes, if its schedule leaves them to plans. Stages that
/// have one keep it. If the job requires uniform pipelines, a stage has the same one in all of them: the
/// longest, as far as memory allows everywhere.
Plan with_warm_ups(const IterationModel& model, Plan plan);
/// The same with the settings of the plan.
Plan with_warm_ups(Problem problem, Plan plan);

}  // namespace dtfm::cost
