// What is planned and simulated: the machines, the job, and the constants of the models.
#pragma once

#include "planner/core/calibration.hpp"
#include "planner/core/job.hpp"
#include "planner/core/roofline.hpp"
#include "planner/core/topology.hpp"

namespace dtfm {

struct Problem {
  Topology topology;
  Job job;
  Calibration constants;
  Roofline roofline = {};  // for GPUs that the job has no profile of
};

}  // namespace dtfm
