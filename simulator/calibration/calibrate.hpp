// The constants of the model from a user's own runs: simulator/calibration/README.md says by which
// statistics.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "simulator/calibration/measured_run.hpp"

namespace dtfm::sim {

inline constexpr std::size_t min_runs = 5;

struct CalibrateSettings {
  Calibration prior;  // what is taken to be likely before any run is seen
  int threads = 1;
  std::function<void(double share, const std::string& what)> progress = {};
};

/// How well a constant is known.
struct ConstantInterval {
  double low = 0, high = 0;
  bool is_identified = false;  // by the runs: they have halved the assumed standard deviation, or better
};

/// What the model makes of a run.
struct RunFit {
  double simulated_s = 0;  // with the fitted constants
  double leave_one_out_s = 0;   // with constants fitted to the other runs; of an outlier the same as the first
  bool is_outlier = false;
};

struct CalibrationFit {
  Calibration constants;
  CalibrationUncertainty spread;
  std::array<ConstantInterval, CalibrationUncertainty::size> intervals;  // in the order of calibration_constants
  std::vector<RunFit> runs;
};

/// The constants that make the sum of squares of log (simulated ÷ measured) least, together with what is
/// assumed of them beforehand; without the runs that no constants explain beside the others. Throws Error for
/// fewer than five runs.
CalibrationFit calibrate(std::span<const MeasuredRun> runs, const CalibrateSettings& settings);

}  // namespace dtfm::sim
