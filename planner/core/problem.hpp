// The input of planning and simulation: topology, job and calibrated constants.
#pragma once

#include "planner/core/calibration.hpp"
#include "planner/core/job.hpp"
#include "planner/core/roofline.hpp"
#include "planner/core/shared.hpp"
#include "planner/core/topology.hpp"

namespace dtfm {

struct Problem {
  Shared<Topology> topology;
  Job job;
  Calibration constants;
  Roofline roofline = {};  // for GPUs without a profile in the job
};

}  // namespace dtfm
