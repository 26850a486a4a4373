#include "simulator/calibration/least_squares.hpp"

#include <algorithm>
#include <utility>

#include <Eigen/Dense>

namespace dtfm::sim {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

VectorXd damped_step(const MatrixXd& jacobian, const VectorXd& residuals, double damping, const VectorXd& x,
                     const Bounds& bounds) {
  MatrixXd free = jacobian;
  for (;;) {
    MatrixXd normal = free.transpose() * free;
    normal.diagonal() *= 1 + damping;
    normal.diagonal().array() += 1e-12;
    const VectorXd step = normal.ldlt().solve(-free.transpose() * residuals);
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

MatrixXd jacobian(const Residuals& residuals, const VectorXd& x, const VectorXd& here, const Bounds& bounds) {
  constexpr double step = 0.02;
  MatrixXd result = MatrixXd::Zero(here.size(), x.size());
  for (Eigen::Index i = 0; i < x.size(); ++i) {
    if (bounds.low[i] == bounds.high[i]) continue;
    VectorXd there = x;
    there[i] += x[i] + step <= bounds.high[i] ? step : -step;
    result.col(i) = (residuals(there) - here) / (there[i] - x[i]);
  }
  return result;
}

}  // namespace

LeastSquaresFit least_squares(const Residuals& residuals, LeastSquaresFit fit, const Bounds& bounds,
                              double tolerance) {
  constexpr int max_steps = 50;
  constexpr double min_damping = 1e-9, max_damping = 1e6;
  constexpr int max_failures = 2;  // with a Jacobian of Broyden's, before a better one is computed
  double damping = 1e-3;
  bool has_exact_jacobian = true;
  for (int step = 0; step < max_steps; ++step) {
    bool better = false, done = true;
    for (int failures = 0; !better && damping < max_damping; damping *= 10) {
      if (!has_exact_jacobian && failures++ == max_failures) break;
      LeastSquaresFit next;
      next.x = bounds.nearest(fit.x + damped_step(fit.jacobian, fit.residuals, damping, fit.x, bounds));
      next.residuals = residuals(next.x);
      better = next.sum_of_squares() < fit.sum_of_squares();
      if (!better) continue;
      done = next.sum_of_squares() > fit.sum_of_squares() * (1 - tolerance);
      const VectorXd moved = next.x - fit.x;
      next.jacobian = fit.jacobian;
      if (!done)
        next.jacobian +=
            (next.residuals - fit.residuals - fit.jacobian * moved) * moved.transpose() / moved.squaredNorm();
      fit = std::move(next);
      damping = std::max(damping / 100, min_damping);
    }
    if (done && has_exact_jacobian) return fit;
    has_exact_jacobian = done;
    if (!done) continue;
    fit.jacobian = jacobian(residuals, fit.x, fit.residuals, bounds);
    damping = 1e-3;
  }
  if (!has_exact_jacobian) fit.jacobian = jacobian(residuals, fit.x, fit.residuals, bounds);
  return fit;
}

LeastSquaresFit least_squares(const Residuals& residuals, const VectorXd& start, const Bounds& bounds,
                              double tolerance) {
  LeastSquaresFit fit;
  fit.x = bounds.nearest(start);
  fit.residuals = residuals(fit.x);
  fit.jacobian = jacobian(residuals, fit.x, fit.residuals, bounds);
  return least_squares(residuals, std::move(fit), bounds, tolerance);
}

}  // namespace dtfm::sim
