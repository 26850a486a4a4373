#include "simulator/calibration/fit.hpp"

#include <algorithm>

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

Vector to_vector(const SimConstants& constants) {
  return Vector(constants.compute_efficiency, constants.message_overhead_s, constants.network_efficiency,
                constants.iteration_overhead_s)
      .cwiseQuotient(scale);
}

/// The nearest constants that make sense.
SimConstants to_constants(const Vector& vector) {
  constexpr double least_share = 0.01;
  const Vector v = vector.cwiseProduct(scale);
  return {std::clamp(v[0], least_share, 1.0), std::max(0.0, v[1]), std::clamp(v[2], least_share, 1.0),
          std::max(0.0, v[3])};
}

Eigen::VectorXd errors_at(std::span<const MeasuredRun> runs, const Vector& x, int threads) {
  const std::vector<double> errors = relative_errors(runs, to_constants(x), threads);
  return Eigen::Map<const Eigen::VectorXd>(errors.data(), static_cast<Eigen::Index>(errors.size()));
}

/// Backwards where a step forward would leave what makes sense.
Eigen::MatrixXd derivatives(std::span<const MeasuredRun> runs, const Vector& x, const Eigen::VectorXd& here,
                            int threads) {
  constexpr double step = 0.02;
  Eigen::MatrixXd result(here.size(), x.size());
  for (Eigen::Index i = 0; i < x.size(); ++i) {
    Vector there = x;
    there[i] += step;
    if (to_vector(to_constants(there))[i] < there[i]) there[i] = x[i] - step;
    result.col(i) = (errors_at(runs, there, threads) - here) / (there[i] - x[i]);
  }
  return result;
}

}  // namespace

double simulated_seconds(const MeasuredRun& run, const SimConstants& constants) {
  SimProblem problem = run.problem;
  problem.constants = constants;
  return replay(iteration_graph(problem, run.plan).graph).makespan;
}

std::vector<double> relative_errors(std::span<const MeasuredRun> runs, const SimConstants& constants,
                                    int threads) {
  return parallel_map(static_cast<int>(runs.size()), threads, [&](int i) {
    const MeasuredRun& run = runs[at(i)];
    return simulated_seconds(run, constants) / run.seconds - 1;
  });
}

SimConstants fitted_constants(std::span<const MeasuredRun> runs, const SimConstants& start, int threads) {
  constexpr int most_steps = 50;
  constexpr double enough = 1e-4;  // relative improvement of the sum of squares
  Vector x = to_vector(start);
  if (runs.size() < static_cast<std::size_t>(x.size()))
    throw Error("", "four constants cannot be fitted to fewer than four runs");
  Eigen::VectorXd errors = errors_at(runs, x, threads);
  double damping = 1e-3;
  for (int step = 0; step < most_steps && damping < 1e6; ++step) {
    const Eigen::MatrixXd slopes = derivatives(runs, x, errors, threads);
    const Eigen::Matrix4d normal = slopes.transpose() * slopes;
    bool better = false;
    for (; !better && damping < 1e6; damping *= 10) {
      Eigen::Matrix4d damped = normal;
      damped.diagonal() *= 1 + damping;
      damped.diagonal().array() += 1e-12;
      const Vector move = damped.ldlt().solve(-slopes.transpose() * errors);
      const Vector next = to_vector(to_constants(x + move));
      const Eigen::VectorXd next_errors = errors_at(runs, next, threads);
      better = next_errors.squaredNorm() < errors.squaredNorm();
      if (!better) continue;
      const bool done = next_errors.squaredNorm() > errors.squaredNorm() * (1 - enough);
      x = next;
      errors = next_errors;
      damping /= 100;
      if (done) return to_constants(x);
    }
  }
  return to_constants(x);
}

}  // namespace dtfm
