#include "simulator/calibration/fit.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include <Eigen/Dense>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"
#include "planner/core/parallel.hpp"
#include "simulator/graph/graph_replay.hpp"
#include "simulator/lowering/iteration_graph.hpp"

namespace dtfm {
namespace {

using Vector = Eigen::Vector4d;

/// What one unit of a constant is for the fit: its usual size. Also the step of differences is a share of it.
const Vector scale(0.1, 1e-3, 0.1, 0.1);

Vector to_vector(const Calibration& constants) {
  return Vector(constants.compute_scale, constants.message_overhead_s, constants.network_efficiency,
                constants.iteration_overhead_s)
      .cwiseQuotient(scale);
}

Calibration to_constants(const Vector& vector) {
  const Vector v = vector.cwiseProduct(scale);
  return {v[0], v[1], v[2], v[3]};
}

/// What makes sense: a scale above 0, a share in (0, 1], times ≥ 0; of what is known, the one value.
struct Bounds {
  Vector low, high;
  Vector nearest(const Vector& x) const { return x.cwiseMax(low).cwiseMin(high); }
};

Bounds bounds_of(const KnownCalibration& known) {
  constexpr double least = 0.01, most_scale = 100, most_seconds = 1e6;
  Vector low(least, 0, least, 0), high(most_scale, most_seconds, 1, most_seconds);
  const std::array values = {known.compute_scale, known.message_overhead_s, known.network_efficiency,
                             known.iteration_overhead_s};
  for (Eigen::Index i = 0; i < low.size(); ++i)
    if (const auto& value = values[static_cast<std::size_t>(i)]) low[i] = high[i] = *value;
  return {low.cwiseQuotient(scale), high.cwiseQuotient(scale)};
}

/// Where the fit begins: little of the network's time by messages, much of it, and machines far off.
const std::array<Calibration, 3> starts = {{{1, 1e-3, 0.9, 0.5}, {0.5, 1e-2, 0.99, 0.5}, {2, 1e-4, 0.6, 2}}};

Eigen::VectorXd errors_at(std::span<const MeasuredRun> runs, const Vector& x, int threads) {
  const std::vector<double> errors = relative_errors(runs, to_constants(x), threads);
  return Eigen::Map<const Eigen::VectorXd>(errors.data(), static_cast<Eigen::Index>(errors.size()));
}

/// Backwards where a step forward would leave the bounds, 0 of what cannot move.
Eigen::MatrixXd derivatives(std::span<const MeasuredRun> runs, const Vector& x, const Eigen::VectorXd& here,
                            const Bounds& bounds, int threads) {
  constexpr double step = 0.02;
  Eigen::MatrixXd result = Eigen::MatrixXd::Zero(here.size(), x.size());
  for (Eigen::Index i = 0; i < x.size(); ++i) {
    if (bounds.low[i] == bounds.high[i]) continue;
    Vector there = x;
    there[i] += x[i] + step <= bounds.high[i] ? step : -step;
    result.col(i) = (errors_at(runs, there, threads) - here) / (there[i] - x[i]);
  }
  return result;
}

/// The step of Levenberg and Marquardt's method in an active set: what lies on a bound and would step over it
/// stays, and the others step as if it was no constant to be fitted.
Vector damped_step(const Eigen::MatrixXd& slopes, const Eigen::VectorXd& errors, double damping,
                   const Vector& x, const Bounds& bounds) {
  Eigen::MatrixXd free = slopes;
  for (;;) {
    Eigen::Matrix4d normal = free.transpose() * free;
    normal.diagonal() *= 1 + damping;
    normal.diagonal().array() += 1e-12;
    const Vector step = normal.ldlt().solve(-free.transpose() * errors);
    bool stays = false;
    for (Eigen::Index i = 0; i < x.size(); ++i) {
      const bool outward = (x[i] <= bounds.low[i] && step[i] < 0) || (x[i] >= bounds.high[i] && step[i] > 0);
      if (!outward || free.col(i).isZero(0)) continue;
      free.col(i).setZero();
      stays = true;
    }
    if (!stays) return step;
  }
}

struct Fit {
  Vector x;
  double squares = 0;
};

Fit fit_from(std::span<const MeasuredRun> runs, const Vector& start, const Bounds& bounds, int threads) {
  constexpr int most_steps = 50;
  constexpr double enough = 1e-6;  // relative improvement of the sum of squares
  constexpr double most_damping = 1e6;
  Vector x = bounds.nearest(start);
  Eigen::VectorXd errors = errors_at(runs, x, threads);
  double damping = 1e-3;
  for (int step = 0; step < most_steps && damping < most_damping; ++step) {
    const Eigen::MatrixXd slopes = derivatives(runs, x, errors, bounds, threads);
    bool better = false;
    for (; !better && damping < most_damping; damping *= 10) {
      const Vector next = bounds.nearest(x + damped_step(slopes, errors, damping, x, bounds));
      const Eigen::VectorXd next_errors = errors_at(runs, next, threads);
      better = next_errors.squaredNorm() < errors.squaredNorm();
      if (!better) continue;
      const bool done = next_errors.squaredNorm() > errors.squaredNorm() * (1 - enough);
      x = next;
      errors = next_errors;
      damping /= 100;
      if (done) return {x, errors.squaredNorm()};
    }
  }
  return {x, errors.squaredNorm()};
}

}  // namespace

double simulated_seconds(const MeasuredRun& run, const Calibration& constants) {
  Problem problem = run.problem;
  problem.constants = constants;
  return replay(iteration_graph(problem, run.plan).graph).makespan;
}

std::vector<double> relative_errors(std::span<const MeasuredRun> runs, const Calibration& constants,
                                    int threads) {
  return parallel_map(static_cast<int>(runs.size()), threads, [&](int i) {
    const MeasuredRun& run = runs[at(i)];
    return simulated_seconds(run, constants) / run.seconds - 1;
  });
}

Calibration fitted_calibration(std::span<const MeasuredRun> runs, const KnownCalibration& known,
                               int threads) {
  const Bounds bounds = bounds_of(known);
  if (runs.size() < static_cast<std::size_t>(scale.size()))
    throw Error("", "four constants cannot be fitted to fewer than four runs");
  std::optional<Fit> best;
  for (const Calibration& start : starts) {
    const Fit fit = fit_from(runs, to_vector(start), bounds, threads);
    if (!best || fit.squares < best->squares) best = fit;
  }
  return to_constants(best->x);
}

}  // namespace dtfm
