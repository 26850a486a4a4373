// How far a measured time may lie from a predicted one, by how well the constants are known.
#pragma once

#include <functional>

#include "planner/core/calibration.hpp"
#include "planner/core/plan.hpp"
#include "planner/core/problem.hpp"
#include "planner/core/schedule/path_schedule.hpp"

namespace dtfm::sim {

/// The share of intervals, of constants and of times, that hold the truth.
inline constexpr double confidence_level = 0.95;

/// The factor ≥ 1 by which the seconds of an iteration that somebody measures may be more or less than the
/// simulated ones, as `seconds_with` says what any constants make of them. By the delta method the variance
/// of their logarithm is that of the runs about the model plus gᵀ C g, with C the covariance of the constants
/// and g the derivatives of the logarithm, by differences over one standard deviation of each constant; its
/// root times Student's t is the logarithm of the factor. Calls `seconds_with` up to seven times.
double prediction_factor(const Calibration& constants, const CalibrationUncertainty& spread,
                         const std::function<double(const Calibration&)>& seconds_with);

/// About `seconds`, the mean of iterations of `plan`, on these `paths` or as pipelines, that were simulated
/// with the constants of `problem`.
/// What an undisturbed iteration may be off by holds for all.
PredictionInterval time_interval(const Problem& problem, const Plan& plan, const CalibrationUncertainty& spread,
                           double seconds, const PathSchedule* paths = nullptr);

}  // namespace dtfm::sim
