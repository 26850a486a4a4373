// Least-squares fit of the calibration constants without a prior, by which configs/calibrations/v100.yaml was
// made. For a user's runs, simulator/calibration/calibrate.hpp fits with a prior and gives intervals.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "core/base/error.hpp"
#include "simulator/calibration/least_squares.hpp"
#include "simulator/calibration/measured_run.hpp"

namespace dtfm {
using namespace sim;

/// Simulated ÷ measured − 1 for each run.
inline std::vector<double> relative_errors(std::span<const MeasuredRun> runs, const Calibration& constants,
                                           int threads) {
  std::vector<double> errors = simulate_seconds(runs, constants, threads);
  for (std::size_t i = 0; i < errors.size(); ++i) errors[i] = errors[i] / runs[i].seconds - 1;
  return errors;
}

/// Constants that are not fitted, because they were measured separately or the model does without them.
struct KnownCalibration {
  std::optional<double> compute_scale = {}, message_overhead_s = {}, network_efficiency = {},
                        iteration_overhead_s = {}, micro_batch_overhead_s = 0, sync_efficiency = 1;
};

namespace fitting {

using Vector = Eigen::VectorXd;

/// Unit of each constant in the fit: its typical magnitude.
inline Vector scale() {
  Vector scale(6);
  scale << 0.1, 1e-3, 0.1, 0.1, 1e-3, 0.1;
  return scale;
}

inline Vector to_vector(const Calibration& constants) {
  Vector result(6);
  result << constants.compute_scale, constants.message_overhead_s, constants.network_efficiency,
      constants.iteration_overhead_s, constants.micro_batch_overhead_s, constants.sync_efficiency;
  return result.cwiseQuotient(scale());
}

inline Calibration to_constants(const Vector& vector) {
  const Vector v = vector.cwiseProduct(scale());
  return {v[0], v[1], v[2], v[3], v[4], v[5]};
}

/// Valid ranges: a scale above 0, shares in (0, 1], times ≥ 0; a known constant is fixed to its value.
inline Bounds bounds_of(const KnownCalibration& known) {
  constexpr double min_factor = 0.01, max_scale = 100, max_seconds = 1e6;
  Vector low(6), high(6);
  low << min_factor, 0, min_factor, 0, 0, min_factor;
  high << max_scale, max_seconds, 1, max_seconds, max_seconds, 1;
  const std::array values = {known.compute_scale,          known.message_overhead_s,
                             known.network_efficiency,     known.iteration_overhead_s,
                             known.micro_batch_overhead_s, known.sync_efficiency};
  for (Eigen::Index i = 0; i < low.size(); ++i)
    if (const auto& value = values[static_cast<std::size_t>(i)]) low[i] = high[i] = *value;
  return {low.cwiseQuotient(scale()), high.cwiseQuotient(scale())};
}

/// Initial points: with small and with large message overhead, and far from the defaults.
inline const std::array<Calibration, 3> starts = {
    {{1, 1e-3, 0.9, 0.5}, {0.5, 1e-2, 0.99, 0.5}, {2, 1e-4, 0.6, 2}}};

}  // namespace fitting

/// The constants that minimize the sum of squared relative errors (least_squares.hpp), with the scale above
/// 0, shares in (0, 1] and times ≥ 0. The sum has several minima, so the best fit from several fixed initial
/// points is returned. Throws Error for fewer than four runs.
inline Calibration fit_calibration(std::span<const MeasuredRun> runs, const KnownCalibration& known,
                                   int threads) {
  constexpr double tolerance = 1e-6;
  const Bounds bounds = fitting::bounds_of(known);
  if (runs.size() < 4) throw Error("", "fitting four constants requires at least four runs");
  const Residuals errors = [&](const fitting::Vector& x) -> fitting::Vector {
    const std::vector<double> values = relative_errors(runs, fitting::to_constants(x), threads);
    return Eigen::Map<const fitting::Vector>(values.data(), static_cast<Eigen::Index>(values.size()));
  };
  std::optional<LeastSquaresFit> best;
  for (const Calibration& start : fitting::starts) {
    const LeastSquaresFit found = least_squares(errors, fitting::to_vector(start), bounds, tolerance);
    if (!best || found.sum_of_squares() < best->sum_of_squares()) best = found;
  }
  return fitting::to_constants(best->x);
}

}  // namespace dtfm
