// One iteration of training as a task graph.
#pragma once

#include <vector>

#include "planner/core/plan.hpp"
#include "simulator/lowering/activity.hpp"
#include "simulator/lowering/lowered_network.hpp"
#include "simulator/problem.hpp"

namespace dtfm {

/// A graph and what its tasks and links are for.
struct LabelledGraph {
  TaskGraph graph;                 // without names; host i is device i
  std::vector<TaskLabel> labels;   // of each task
  std::vector<LinkMeaning> links;  // of each link
};

/// Every pipeline computes its micro-batches in the order of the schedule; a message is sent as soon as it is
/// there, those of one pair of devices in order; the replicas of every layer exchange its gradients when the
/// last of their backwards is done; the iteration ends with the step of all. Tasks come after all that they
/// wait for. Throws Error for what cannot be run.
LabelledGraph iteration_graph(const SimProblem& problem, const Plan& plan);

}  // namespace dtfm
