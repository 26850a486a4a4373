#include <cmath>
#include <memory>
#include <utility>

#include <omp.h>

#include "core/base/index.hpp"
#include "simulator/calibration/least_squares.hpp"
#include "tests/support/fit_calibration.hpp"
#include "tests/validation/measured_layers.hpp"

namespace dtfm {
namespace {

/// `launch` in ms, so that all are of a magnitude of 1.
RooflineConstants constants_of(const Eigen::VectorXd& c) {
  return {c[0], c[1], c[2], c[3] * 1e-3, c[4]};
}

double estimated_s(const LayerSample& sample, const RooflineConstants& roofline) {
  const ProfileRow row = estimated_row(sample.gpu, sample.layer, sample.training, roofline,
                                       sample.micro_batch, {.tensor = sample.tensor}, true);
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

std::vector<double> errors_of(const std::vector<sim::MeasuredRun>& runs, const RooflineConstants& roofline) {
  std::vector<sim::MeasuredRun> changed = runs;
  for (sim::MeasuredRun& run : changed) {
    sim::Workload work = *run.work;
    work.roofline = {roofline, roofline};
    run.work = std::make_shared<const sim::Workload>(std::move(work));
  }
  return relative_errors(changed, Calibration(), omp_get_max_threads());
}

}  // namespace

bool is_launch_bound(const LayerSample& sample, const Roofline& roofline) {
  const RooflineConstants& constants = roofline.of(sample.training);
  return estimated_s(sample, constants) <= constants.launch_s;
}

double relative_error(const LayerSample& sample, const RooflineConstants& roofline) {
  return estimated_s(sample, roofline) / sample.seconds - 1;
}

RooflineConstants fit_roofline(const std::vector<LayerSample>& samples,
                               const std::vector<sim::MeasuredRun>& runs, std::optional<double> update) {
  constexpr double tolerance = 1e-9, most = 1e6;
  const auto residuals = [&](const Eigen::VectorXd& x) -> Eigen::VectorXd {
    std::vector<double> errors;
    for (const LayerSample& sample : samples) errors.push_back(relative_error(sample, constants_of(x)));
    if (!runs.empty())
      for (const double error : errors_of(runs, constants_of(x))) errors.push_back(error);
    return Eigen::Map<const Eigen::VectorXd>(errors.data(), std::ssize(errors));
  };
  sim::Bounds bounds{Eigen::VectorXd::Zero(5), Eigen::VectorXd::Constant(5, most)};
  bounds.low[0] = 1;  // no matrix product exceeds the peak
  if (update) bounds.low[4] = bounds.high[4] = *update;
  Eigen::VectorXd start(5);
  start << 1, 2, 4, 1, 2;
  return constants_of(sim::least_squares(residuals, start, bounds, tolerance).x);
}

ErrorSummary summary(const std::vector<LayerSample>& samples, const Roofline& roofline) {
  ErrorSummary result;
  for (const LayerSample& sample : samples) {
    const double error = relative_error(sample, roofline.of(sample.training));
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
  const auto fitted_where = [&](const auto& holds) {
    const RooflineConstants constants = fit_roofline(filter_samples(fitted, holds));
    return Roofline{constants, constants};
  };
  std::vector<ProfileErrors> result;
  for (const LayerSample& sample : fitted) {
    if (!result.empty() && result.back().profile == sample.profile) continue;
    const auto own = filter_samples(fitted, [&](const auto& it) { return it.profile == sample.profile; });
    result.push_back(
        {sample.profile, summary(own, fitted_where([](const auto&) { return true; })),
         summary(own, fitted_where([&](const auto& it) { return it.gpu.name != sample.gpu.name; })),
         summary(own, fitted_where([&](const auto& it) { return it.model != sample.model; }))});
  }
  return result;
}

}  // namespace dtfm
