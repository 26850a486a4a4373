// Least-squares fit of the calibration constants without a prior, by which configs/calibrations/v100.yaml was
// made. For a user's runs, calibrate.hpp fits with a prior and gives intervals.
#pragma once

#include <optional>
#include <span>

#include "simulator/calibration/measured_run.hpp"

namespace dtfm::sim {

/// Constants that are not fitted, because they were measured separately or the model does without them.
struct KnownCalibration {
  std::optional<double> compute_scale = {}, message_overhead_s = {}, network_efficiency = {},
                        iteration_overhead_s = {}, micro_batch_overhead_s = 0, sync_efficiency = 1;
};

/// The constants that minimize the sum of squared relative errors (least_squares.hpp), with the scale above
/// 0, shares in (0, 1] and times ≥ 0. The sum has several minima, so the best fit from several fixed initial
/// points is returned. Throws Error for fewer than four runs.
Calibration fit_calibration(std::span<const MeasuredRun> runs, const KnownCalibration& known, int threads);

}  // namespace dtfm::sim
