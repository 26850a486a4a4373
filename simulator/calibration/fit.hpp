// The constants of the model from measured iteration times: what configs/calibration.yaml is made by. For a
// user's own runs, with what is known beforehand and how well all is known: calibrate.hpp.
#pragma once

#include <optional>
#include <span>

#include "simulator/calibration/measured_run.hpp"

namespace dtfm::sim {

/// Constants that were measured by themselves, or that the model goes without, and are not fitted.
struct KnownCalibration {
  std::optional<double> compute_scale = {}, message_overhead_s = {}, network_efficiency = {},
                        iteration_overhead_s = {}, micro_batch_overhead_s = 0, sync_efficiency = 1;
};

/// The constants with the least sum of squared relative errors: Levenberg and Marquardt's method in an active
/// set, with derivatives by differences, the scale kept above 0, shares in (0, 1], times ≥ 0. The sum has
/// several minima, so the best of the fits from several fixed starts is taken. Throws Error for fewer than
/// four runs.
Calibration fit_calibration(std::span<const MeasuredRun> runs, const KnownCalibration& known, int threads);

}  // namespace dtfm::sim
