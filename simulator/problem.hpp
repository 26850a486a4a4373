// What is simulated: the machines, the job, and the constants of the model.
#pragma once

#include "planner/core/job.hpp"
#include "planner/core/roofline.hpp"
#include "planner/core/topology.hpp"
#include "simulator/model/constants.hpp"

namespace dtfm {

struct SimProblem {
  Topology topology;
  Job job;
  SimConstants constants;
  Roofline roofline = {};  // for GPUs that the job has no profile of
};

}  // namespace dtfm
