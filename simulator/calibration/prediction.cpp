#include "simulator/calibration/prediction.hpp"

#include <algorithm>
#include <cmath>

#include "simulator/calibration/student_t.hpp"
#include "simulator/simulate.hpp"

namespace dtfm::sim {
namespace {

constexpr std::size_t size = CalibrationUncertainty::size;

/// Moves the i-th constant by one standard deviation, downward if a share would exceed 1. Returns the change.
double perturb(Calibration& constants, std::size_t i, double deviation) {
  double& value = constants.*calibration_constants[i].value;
  const double before = value;
  const bool is_share = calibration_constants[i].kind == CalibrationConstant::Kind::share;
  value = is_share && before + deviation > 1 ? before - std::min(deviation, before / 2) : before + deviation;
  return value - before;
}

}  // namespace

double prediction_factor(const Calibration& constants, const CalibrationUncertainty& spread,
                         const std::function<double(const Calibration&)>& seconds_with) {
  const double seconds = seconds_with(constants);
  if (!(seconds > 0)) return 1;
  std::array<double, size> derivatives = {};
  for (std::size_t i = 0; i < size; ++i) {
    Calibration other = constants;
    const double step = perturb(other, i, std::sqrt(spread.covariance[i][i]));
    if (step != 0) derivatives[i] = std::log(seconds_with(other) / seconds) / step;
  }
  double variance = 0;
  for (std::size_t i = 0; i < size; ++i)
    for (std::size_t k = 0; k < size; ++k)
      variance += derivatives[i] * spread.covariance[i][k] * derivatives[k];
  variance = std::max(variance, 0.0) + spread.residual * spread.residual;
  return std::exp(student_critical_value(1 - confidence_level, spread.degrees_of_freedom) *
                  std::sqrt(variance));
}

PredictionInterval time_interval(const Problem& problem, const Plan& plan,
                                 const CalibrationUncertainty& spread, double seconds,
                                 const PathSchedule* paths, const StopFunction& stop) {
  Problem other = problem;
  const double factor = prediction_factor(problem.constants, spread, [&](const Calibration& constants) {
    other.constants = constants;
    return undisturbed_seconds(other, plan, 1, paths, stop);
  });
  return {seconds / factor, seconds * factor, confidence_level};
}

}  // namespace dtfm::sim
