#include <cmath>

#include <Eigen/Dense>

#include "planner/core/index.hpp"
#include "tests/validation/measured_layers.hpp"

namespace dtfm {
namespace {

constexpr int constants = 5;

Roofline roofline_of(const Eigen::VectorXd& c) {
  return {c[0], c[1], c[2], c[3], c[4]};
}

double estimated_s(const LayerSample& sample, const Roofline& roofline) {
  const ProfileRow row =
      estimated_row(sample.gpu, sample.layer, sample.training, roofline, sample.micro_batch, sample.tensor);
  switch (sample.what) {
    case LayerSample::Quantity::forward:
      return row.forward.median_s;
    case LayerSample::Quantity::backward:
      return row.backward.median_s;
    case LayerSample::Quantity::update:
      return row.update.value().median_s;
  }
  return 0;
}

/// Returns one row per sample: the share of its measured time that one unit of each constant contributes.
Eigen::MatrixXd shares(const std::vector<LayerSample>& samples) {
  Eigen::MatrixXd result(samples.size(), constants);
  for (Eigen::Index row = 0; row < result.rows(); ++row)
    for (int column = 0; column < constants; ++column) {
      const LayerSample& sample = samples[static_cast<std::size_t>(row)];
      const Eigen::VectorXd unit = Eigen::VectorXd::Unit(constants, column);
      result(row, column) = estimated_s(sample, roofline_of(unit)) / sample.seconds;
    }
  return result;
}

/// Returns the x ≥ 0 that minimizes |a x − 1|²: of the least-squares solutions for all subsets of the
/// columns, the best one without a negative value. There are few columns.
Eigen::VectorXd non_negative_least_squares(const Eigen::MatrixXd& a) {
  const Eigen::VectorXd ones = Eigen::VectorXd::Ones(a.rows());
  Eigen::VectorXd best = Eigen::VectorXd::Zero(a.cols());
  double least = ones.squaredNorm();
  for (unsigned subset = 1; subset < 1u << a.cols(); ++subset) {
    Eigen::MatrixXd kept = a;
    for (Eigen::Index column = 0; column < a.cols(); ++column)
      if ((subset >> column & 1u) == 0) kept.col(column).setZero();
    const Eigen::VectorXd x = kept.completeOrthogonalDecomposition().solve(ones);
    const double squares = (kept * x - ones).squaredNorm();
    if (x.minCoeff() < 0 || squares >= least) continue;
    best = x;
    least = squares;
  }
  return best;
}

}  // namespace

double relative_error(const LayerSample& sample, const Roofline& roofline) {
  return estimated_s(sample, roofline) / sample.seconds - 1;
}

Roofline fit_roofline(const std::vector<LayerSample>& samples) {
  return roofline_of(non_negative_least_squares(shares(samples)));
}

ErrorSummary summary(const std::vector<LayerSample>& samples, const Roofline& roofline) {
  ErrorSummary result;
  for (const LayerSample& sample : samples) {
    const double error = relative_error(sample, roofline);
    result.mean += std::abs(error);
    if (std::abs(error) > std::abs(result.worst)) result.worst = error;
    ++result.count;
  }
  if (result.count > 0) result.mean /= result.count;
  return result;
}

std::vector<ProfileErrors> errors_by_profile(const std::vector<LayerSample>& samples) {
  const std::vector<LayerSample> fitted = filter_samples(
      samples, [](const auto& it) { return is_used_in_fit(it) && it.what != LayerSample::Quantity::update; });
  const auto fitted_where = [&](const auto& holds) { return fit_roofline(filter_samples(fitted, holds)); };
  std::vector<ProfileErrors> result;
  for (const LayerSample& sample : fitted) {
    if (!result.empty() && result.back().profile == sample.profile) continue;
    const auto own = filter_samples(fitted, [&](const auto& it) { return it.profile == sample.profile; });
    result.push_back(
        {sample.profile, summary(own, fit_roofline(fitted)),
         summary(own, fitted_where([&](const auto& it) { return it.gpu.name != sample.gpu.name; })),
         summary(own, fitted_where([&](const auto& it) { return it.model != sample.model; }))});
  }
  return result;
}

}  // namespace dtfm
