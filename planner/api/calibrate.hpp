// Fits the constants of the simulator to measured iterations: what dtfm-calibrate does, without text.
#pragma once

#include <memory>
#include <vector>

#include "core/base/work.hpp"
#include "core/cluster/topology.hpp"
#include "simulator/calibration/calibrate.hpp"

namespace dtfm::api {

struct CalibrateRequest {
  std::shared_ptr<const Topology> topology;  // of the runs that name none
  std::vector<sim::MeasuredRun> runs = {};   // at least one
  Calibration prior = {};                    // its mean: the constants of the job or the topology, or neutral
  Work work = {};                            // threads, progress and interrupts
};

/// Mean absolute relative errors of simulated against measured times, over all runs but outliers.
struct MeanErrors {
  double fitted = 0, leave_one_out = 0, prior = 0;
};

struct CalibrateResult {
  sim::CalibrationFit fit;
  std::vector<double> prior_s;  // simulated seconds of each run with the constants of the prior
  MeanErrors errors;
};

/// The result does not depend on the number of threads. Throws Error for too few runs, and WorkStopped.
CalibrateResult calibrate(const CalibrateRequest& request);

}  // namespace dtfm::api
