// The measured iterations of measured.csv as runs that can be simulated.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "simulator/calibration/calibrate.hpp"
#include "tests/support/fit_calibration.hpp"

namespace dtfm {
using namespace sim;

/// Reads the runs; `folder` is tests/validation.
std::vector<MeasuredRun> read_measured_runs(const std::string& folder);

/// Iterations of 64 V100s, 8 pipelines of 8 stages, on five emulated networks (`data`/measured), whose names
/// are those of topologies/: pipelines in the order of the devices, and random ones. Inside regions the delay
/// is 10 ms. The runs of case 2 are described by `spot-10g`. The collective that synchronized gradients is
/// not known.
std::vector<MeasuredRun> read_network_runs(const std::string& data, GradientSync sync = GradientSync::ring);

/// Returns the constants determined by single messages (configs/calibrations/v100.yaml), which a fit to
/// iterations cannot determine.
KnownCalibration directly_measured_constants();

/// Returns the mean of the absolute values.
double mean_absolute(const std::vector<double>& errors);

/// Returns the networks of the runs in order.
std::vector<std::string> network_names(const std::vector<MeasuredRun>& runs);
std::vector<MeasuredRun> runs_on(const std::string& network, const std::vector<MeasuredRun>& runs);

/// Errors of the runs on one network, simulated with constants fitted to the runs on the others.
struct HeldOutErrors {
  std::string network;
  Calibration constants;
  std::vector<double> errors;
};
std::vector<HeldOutErrors> cross_validation_errors(const std::vector<MeasuredRun>& runs,
                                                   const KnownCalibration& known, int threads);

/// A calibration as by a user (dtfm-calibrate) with some of the runs, which does not see the others.
struct SplitFit {
  CalibrationFit fit;
  std::vector<double> fitted, others;  // errors of the fitted runs, and of the others
  std::size_t inside = 0;              // how many of the others are in their predicted intervals
};
/// Fits every `step`-th run, beginning with `first`.
SplitFit fit_to_every(std::size_t step, std::size_t first, const std::vector<MeasuredRun>& runs,
                      const Calibration& prior, int threads);
/// Fits the first, third, … runs, and the second, fourth, … . The prior is the overhead of single messages,
/// and no other losses.
std::array<SplitFit, 2> fit_to_halves(const std::vector<MeasuredRun>& runs, int threads);

}  // namespace dtfm
