// The constants of the model from measured iteration times.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planner/core/plan.hpp"
#include "planner/core/problem.hpp"

namespace dtfm {

struct MeasuredRun {
  std::string name, network;
  Problem problem;  // its constants mean nothing
  Plan plan;
  double seconds = 0;  // an iteration
};

/// Seconds of an iteration of `run` with `constants`.
double simulated_seconds(const MeasuredRun& run, const Calibration& constants);

/// Simulated ÷ measured − 1, of each run; on `threads` threads.
std::vector<double> relative_errors(std::span<const MeasuredRun> runs, const Calibration& constants,
                                    int threads);

/// Constants that were measured by themselves and are not fitted.
struct KnownCalibration {
  std::optional<double> compute_scale = {}, message_overhead_s = {}, network_efficiency = {},
                        iteration_overhead_s = {};
};

/// The constants with the least sum of squared relative errors: Levenberg and Marquardt's method in an active
/// set, with derivatives by differences, the scale kept above 0, the share in (0, 1], times ≥ 0. The sum has
/// several minima, so the best of the fits from several fixed starts is taken. Throws Error for fewer than
/// four runs.
Calibration fitted_calibration(std::span<const MeasuredRun> runs, const KnownCalibration& known, int threads);

}  // namespace dtfm
