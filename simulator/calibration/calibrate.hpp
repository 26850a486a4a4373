// Fits the calibration constants of the simulator to measured runs, by the statistics described in
// docs/how-it-works.md.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/work.hpp"
#include "simulator/calibration/measured_run.hpp"

namespace dtfm::sim {

/// At least so many runs remain when outliers are removed: fewer cannot show that a run is one.
inline constexpr std::size_t min_runs_besides_outliers = 5;
/// What the model misses in runs that it was not fitted to, relative: about the root mean square of the
/// errors on published runs (published_errors_table).
inline constexpr double assumed_model_error = 0.1;

struct CalibrateSettings {
  Calibration prior;  // mean of the prior
  int threads = 1;
  StopFunction stop = {};  // once it returns true, calibrate throws WorkStopped
  std::function<void(const Progress&)> on_progress = {};
};

/// 95 % interval (confidence_level) of a constant, in its own unit.
struct ConstantInterval {
  double low = 0, high = 0;
  bool is_identified = false;  // its standard deviation is less than half of the prior's
};

/// What the fitted constants predict of one run.
struct RunFit {
  double simulated_s = 0;
  double leave_one_out_s = 0;  // with constants fitted to the other runs; simulated_s for an outlier
  bool is_outlier = false;
  /// Relative change of the simulated time by each constant against its prior mean, in the order of
  /// calibration_constants, while the others are as fitted.
  std::array<double, CalibrationUncertainty::size> effects = {};
  double peak_memory_bytes = 0;  // of the device that needs most; 0 if no run has a measured peak
};

struct CalibrationFit {
  Calibration constants;
  double residual = 0;            // standard deviation of log (simulated ÷ measured) of the fitted runs
  double degrees_of_freedom = 0;  // of the fit
  CalibrationUncertainty spread;  // for other runs, in which the model misses more
  /// In the order of calibration_constants.
  std::array<ConstantInterval, CalibrationUncertainty::size> intervals;
  /// 95 % interval of process_memory_bytes. Empty if fewer than two runs have a measured peak; the constant
  /// then keeps its prior value.
  std::optional<std::pair<double, double>> process_memory;
  std::vector<RunFit> runs;  // in the order of the arguments
};

/// The constants that minimize the sum of squares of log (simulated ÷ measured) plus that of the prior.
/// Outliers, runs that no constants explain together with the others, are left out. The memory of a process
/// is fitted by least squares of the relative errors of all measured peaks, outliers included. Throws Error
/// without runs, and WorkStopped.
CalibrationFit calibrate(std::span<const MeasuredRun> runs, const CalibrateSettings& settings);

}  // namespace dtfm::sim
