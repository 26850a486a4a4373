#include "simulator/calibration/least_squares.hpp"

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

LeastSquaresFit least_squares(const Residuals& residuals, const VectorXd& start, const Bounds& bounds,
                              double tolerance) {
  constexpr int max_steps = 50;
  constexpr double max_damping = 1e6;
  LeastSquaresFit fit;
  fit.x = bounds.nearest(start);
  fit.residuals = residuals(fit.x);
  double damping = 1e-3;
  for (int step = 0; step < max_steps && damping < max_damping; ++step) {
    fit.jacobian = jacobian(residuals, fit.x, fit.residuals, bounds);
    bool better = false;
    for (; !better && damping < max_damping; damping *= 10) {
      LeastSquaresFit next;
      next.x = bounds.nearest(fit.x + damped_step(fit.jacobian, fit.residuals, damping, fit.x, bounds));
      next.residuals = residuals(next.x);
      next.jacobian = fit.jacobian;
      better = next.sum_of_squares() < fit.sum_of_squares();
      if (!better) continue;
      const bool done = next.sum_of_squares() > fit.sum_of_squares() * (1 - tolerance);
      fit = next;
      damping /= 100;
      if (done) return fit;
    }
  }
  return fit;
}

}  // namespace dtfm::sim
