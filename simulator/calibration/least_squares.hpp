// The method of Levenberg and Marquardt within bounds, for a few unknowns and residuals that are dear to
// compute.
#pragma once

#include <functional>

#include <Eigen/Core>

namespace dtfm::sim {

/// Of each unknown; low = high: it is known. Unknowns are scaled so that one unit is their usual size.
struct Bounds {
  Eigen::VectorXd low, high;
  Eigen::VectorXd nearest(const Eigen::VectorXd& x) const { return x.cwiseMax(low).cwiseMin(high); }
};

using Residuals = std::function<Eigen::VectorXd(const Eigen::VectorXd& x)>;

struct LeastSquaresFit {
  Eigen::VectorXd x, residuals;
  Eigen::MatrixXd jacobian;  // [residual, unknown]: derivatives before the last step, which was a small one
  double sum_of_squares() const { return residuals.squaredNorm(); }
};

/// A minimum of the sum of squares, by steps from `start` in an active set: what lies on a bound and would
/// step over it stays, and the others step as if it was known. Derivatives are differences over 0.02,
/// backwards where a step forward would leave the bounds, 0 of what is known. Ends when a step makes the sum
/// less by no more than the share `enough` of it.
LeastSquaresFit least_squares(const Residuals& residuals, const Eigen::VectorXd& start, const Bounds& bounds,
                              double tolerance);

}  // namespace dtfm::sim
