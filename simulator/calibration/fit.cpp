#include "simulator/calibration/fit.hpp"

#include <array>
#include <optional>

#include "core/base/error.hpp"
#include "simulator/calibration/least_squares.hpp"

namespace dtfm::sim {
namespace {

using Vector = Eigen::VectorXd;

/// Unit of each constant in the fit: its typical magnitude.
Vector scale() {
  Vector scale(6);
  scale << 0.1, 1e-3, 0.1, 0.1, 1e-3, 0.1;
  return scale;
}

Vector to_vector(const Calibration& constants) {
  Vector result(6);
  result << constants.compute_scale, constants.message_overhead_s, constants.network_efficiency,
      constants.iteration_overhead_s, constants.micro_batch_overhead_s, constants.sync_efficiency;
  return result.cwiseQuotient(scale());
}

Calibration to_constants(const Vector& vector) {
  const Vector v = vector.cwiseProduct(scale());
  return {v[0], v[1], v[2], v[3], v[4], v[5]};
}

/// Valid ranges: a scale above 0, shares in (0, 1], times ≥ 0; a known constant is fixed to its value.
Bounds bounds_of(const KnownCalibration& known) {
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
const std::array<Calibration, 3> starts = {{{1, 1e-3, 0.9, 0.5}, {0.5, 1e-2, 0.99, 0.5}, {2, 1e-4, 0.6, 2}}};

}  // namespace

Calibration fit_calibration(std::span<const MeasuredRun> runs, const KnownCalibration& known, int threads) {
  constexpr double tolerance = 1e-6;
  const Bounds bounds = bounds_of(known);
  if (runs.size() < 4) throw Error("", "fitting four constants requires at least four runs");
  const Residuals errors = [&](const Vector& x) -> Vector {
    const std::vector<double> values = relative_errors(runs, to_constants(x), threads);
    return Eigen::Map<const Vector>(values.data(), static_cast<Eigen::Index>(values.size()));
  };
  std::optional<LeastSquaresFit> best;
  for (const Calibration& start : starts) {
    const LeastSquaresFit fit = least_squares(errors, to_vector(start), bounds, tolerance);
    if (!best || fit.sum_of_squares() < best->sum_of_squares()) best = fit;
  }
  return to_constants(best->x);
}

}  // namespace dtfm::sim
