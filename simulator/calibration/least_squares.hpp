// Levenberg-Marquardt method with bounds, for a few unknowns and residuals that are expensive to compute.
#pragma once

#include <functional>

#include <Eigen/Core>

namespace dtfm::sim {

/// Bounds of each unknown; low = high fixes it. Unknowns should be scaled to a magnitude of about 1.
struct Bounds {
  Eigen::VectorXd low, high;
  /// The point within the bounds that is nearest to `x`.
  Eigen::VectorXd nearest(const Eigen::VectorXd& x) const { return x.cwiseMax(low).cwiseMin(high); }
};

using Residuals = std::function<Eigen::VectorXd(const Eigen::VectorXd& x)>;

struct LeastSquaresFit {
  Eigen::VectorXd x, residuals;
  Eigen::MatrixXd jacobian;  // [residual, unknown], at `x` or before the last step, which was small
  double sum_of_squares() const { return residuals.squaredNorm(); }
};

/// A local minimum of the sum of squares, reached from `start` by an active-set method: an unknown on a bound
/// that would step over it is fixed for that step. The Jacobian is computed by finite differences (step 0.02,
/// backward if a forward step would leave the bounds, 0 for fixed unknowns) at the start and again before
/// convergence is accepted, and updated by Broyden's rank-one formula in between. Stops when a step from a
/// Jacobian by finite differences reduces the sum by at most the fraction `tolerance`, when no step reduces
/// it, or after 50 steps.
LeastSquaresFit least_squares(const Residuals& residuals, const Eigen::VectorXd& start, const Bounds& bounds,
                              double tolerance);
/// Continues from `start`, which must lie within the bounds and have its residuals and their Jacobian by
/// finite differences.
LeastSquaresFit least_squares(const Residuals& residuals, LeastSquaresFit start, const Bounds& bounds,
                              double tolerance);

}  // namespace dtfm::sim
