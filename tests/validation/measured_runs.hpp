// The measured iterations of measured.csv as runs to be simulated.
#pragma once

#include <string>
#include <vector>

#include "simulator/calibration/fit.hpp"

namespace dtfm {

/// `folder` is tests/validation.
std::vector<MeasuredRun> read_measured_runs(const std::string& folder);

/// What single messages say (configs/calibration.yaml), and no fit to iterations does.
KnownCalibration measured_by_themselves();

/// Of absolute values.
double mean_of(const std::vector<double>& errors);

/// The networks of the runs, in order.
std::vector<std::string> networks_of(const std::vector<MeasuredRun>& runs);

/// Of the runs on each network, as simulated with constants fitted to the runs on the others.
struct LeftOut {
  std::string network;
  Calibration constants;
  std::vector<double> errors;
};
std::vector<LeftOut> errors_left_out(const std::vector<MeasuredRun>& runs, const KnownCalibration& known,
                                     int threads);

}  // namespace dtfm
