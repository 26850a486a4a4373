// The measured iterations of measured.csv as runs to be simulated.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "simulator/calibration/calibrate.hpp"
#include "simulator/calibration/fit.hpp"

namespace dtfm {
using namespace sim;

/// `folder` is tests/validation.
std::vector<MeasuredRun> read_measured_runs(const std::string& folder);

/// What single messages say (configs/calibration.yaml), and no fit to iterations does.
KnownCalibration directly_measured_constants();

/// Of absolute values.
double mean_absolute(const std::vector<double>& errors);

/// The networks of the runs, in order.
std::vector<std::string> network_names(const std::vector<MeasuredRun>& runs);

/// Of the runs on each network, as simulated with constants fitted to the runs on the others.
struct HeldOutErrors {
  std::string network;
  Calibration constants;
  std::vector<double> errors;
};
std::vector<HeldOutErrors> cross_validation_errors(const std::vector<MeasuredRun>& runs, const KnownCalibration& known,
                                     int threads);

/// As a user would calibrate (dtfm-calibrate) with every second run, of which no one has seen the others:
/// drawn to the time of a block in its profile, the overhead of single messages, and no other losses.
struct HalfSplitFit {
  CalibrationFit fit;
  std::vector<double> fitted, others;  // errors of this half, and of the other
  std::size_t inside = 0;              // of the others: how many lie in their predicted intervals
};
/// Of the first, third, … runs, and of the second, fourth, … .
std::array<HalfSplitFit, 2> fit_to_halves(const std::vector<MeasuredRun>& runs, int threads);

}  // namespace dtfm
