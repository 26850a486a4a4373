#include "simulator/calibration/least_squares.hpp"

#include "tests/support/catch.hpp"

using namespace dtfm;
using namespace dtfm::sim;
using Eigen::VectorXd;

namespace {

Bounds box(double low, double high) {
  return {VectorXd::Constant(2, low), VectorXd::Constant(2, high)};
}

/// A curved valley (Rosenbrock) with its minimum 0 at (1, 1), in which rank-one updates go astray.
VectorXd valley(const VectorXd& x) {
  VectorXd result(2);
  result << 10 * (x[1] - x[0] * x[0]), 1 - x[0];
  return result;
}

VectorXd point(double x, double y) {
  VectorXd result(2);
  result << x, y;
  return result;
}

}  // namespace

TEST_CASE("least squares reach a minimum through a curved valley") {
  for (const VectorXd& start : {point(-1.2, 1), point(3, -2), point(1, 1)}) {
    const LeastSquaresFit fit = least_squares(valley, start, box(-10, 10), 1e-6);
    CHECK(fit.x[0] == Approx(1).margin(1e-4));
    CHECK(fit.x[1] == Approx(1).margin(1e-4));
    CHECK(fit.jacobian(0, 0) == Approx(-20).epsilon(0.02));
    CHECK(fit.jacobian(0, 1) == Approx(10).epsilon(0.001));
    CHECK(fit.jacobian(1, 0) == Approx(-1));
    CHECK(fit.jacobian(1, 1) == Approx(0).margin(1e-9));
  }
}

// With x ≤ 0.5 the valley is deepest at (0.5, 0.25).
TEST_CASE("least squares stay within the bounds and minimize over the others") {
  Bounds bounds = box(-10, 10);
  bounds.high[0] = 0.5;
  const LeastSquaresFit fit = least_squares(valley, point(-1.2, 1), bounds, 1e-6);
  CHECK(fit.x[0] == 0.5);
  CHECK(fit.x[1] == Approx(0.25).margin(1e-3));
  bounds.low[1] = bounds.high[1] = 2;
  const LeastSquaresFit fixed = least_squares(valley, point(0, 2), bounds, 1e-6);
  CHECK(fixed.x[1] == 2);
  CHECK(fixed.jacobian.col(1).isZero(0));
}

// One evaluation of the residuals and one for each unknown.
TEST_CASE("a start with known derivatives saves three evaluations") {
  int evaluations = 0;
  const Residuals counted = [&](const VectorXd& x) -> VectorXd {
    ++evaluations;
    return valley(x);
  };
  const VectorXd start = point(-1.2, 1);
  const LeastSquaresFit anew = least_squares(counted, start, box(-10, 10), 1e-6);
  const int all = evaluations;
  evaluations = 0;
  LeastSquaresFit known{start, valley(start), Eigen::MatrixXd(2, 2)};
  for (Eigen::Index i = 0; i < 2; ++i) {
    VectorXd there = start;
    there[i] += 0.02;
    known.jacobian.col(i) = (valley(there) - known.residuals) / (there[i] - start[i]);
  }
  CHECK(least_squares(counted, known, box(-10, 10), 1e-6).x == anew.x);
  CHECK(evaluations == all - 3);
}
