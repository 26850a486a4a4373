#include <array>
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

constexpr double tolerance = 1e-9, most = 1e6;

/// `launch` in ms, so that all are of a magnitude of 1.
RooflineConstants constants_of(const Eigen::VectorXd& c) {
  return {.compute = c[0],
          .attention = c[0],
          .memory_forward = c[1],
          .memory_backward = c[2],
          .memory_head = c[1],
          .launch_s = c[3] * 1e-3,
          .update = c[4]};
}

/// The unknowns of the fit to runs: first `compute` of the generations in `fitted_compute`, then `attention`
/// of those in `fitted_attention`, then the common constants.
constexpr std::array fitted_compute = {Architecture::ampere, Architecture::hopper, Architecture::blackwell};
constexpr std::array fitted_attention = {Architecture::ampere, Architecture::hopper};
constexpr int common_begin = static_cast<int>(fitted_compute.size() + fitted_attention.size()),
              unknown_count = common_begin + 5;

/// Here, of generations without a fit of their own, `compute` and `attention` are 1. Blackwell has Hopper's
/// `attention`, because its runs have short sequences.
Roofline::ByArchitecture run_constants_of(const Eigen::VectorXd& c, double update) {
  Roofline::ByArchitecture constants;
  constants.fill({.memory_forward = c[common_begin],
                  .memory_backward = c[common_begin + 1],
                  .memory_head = c[common_begin + 2],
                  .launch_s = c[common_begin + 3] * 1e-3,
                  .tensor_launch = c[common_begin + 4],
                  .update = update});
  const auto of = [&](Architecture it) -> RooflineConstants& {
    return constants[static_cast<std::size_t>(it)];
  };
  int i = 0;
  for (const Architecture it : fitted_compute) of(it).compute = c[i++];
  for (const Architecture it : fitted_attention) of(it).attention = c[i++];
  of(Architecture::blackwell).attention = of(Architecture::hopper).attention;
  return constants;
}

/// Errors of all runs, each divided by the root of the number of runs in its set.
Eigen::VectorXd weighted_errors(const std::vector<std::vector<sim::MeasuredRun>>& sets,
                                const Roofline::ByArchitecture& constants) {
  std::vector<sim::MeasuredRun> runs;
  std::vector<double> weights;
  for (const std::vector<sim::MeasuredRun>& set : sets)
    for (const sim::MeasuredRun& run : set) {
      runs.push_back(run);
      sim::Workload work = *run.work;
      work.roofline.bits_16 = constants;
      runs.back().work = std::make_shared<const sim::Workload>(std::move(work));
      weights.push_back(1 / std::sqrt(static_cast<double>(set.size())));
    }
  const std::vector<double> errors = relative_errors(runs, Calibration(), omp_get_max_threads());
  Eigen::VectorXd weighted(std::ssize(errors));
  for (std::size_t i = 0; i < errors.size(); ++i)
    weighted[static_cast<Eigen::Index>(i)] = weights[i] * errors[i];
  return weighted;
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

}  // namespace

bool is_launch_bound(const LayerSample& sample, const Roofline& roofline) {
  const RooflineConstants& constants = roofline.of(sample.gpu, sample.training);
  return estimated_s(sample, constants) <=
         constants.launch_s * (sample.tensor > 1 ? constants.tensor_launch : 1);
}

double relative_error(const LayerSample& sample, const RooflineConstants& roofline) {
  return estimated_s(sample, roofline) / sample.seconds - 1;
}

RooflineConstants fit_roofline(const std::vector<LayerSample>& samples) {
  const auto residuals = [&](const Eigen::VectorXd& x) -> Eigen::VectorXd {
    Eigen::VectorXd errors(std::ssize(samples));
    for (Eigen::Index i = 0; i < errors.size(); ++i)
      errors[i] = relative_error(samples[static_cast<std::size_t>(i)], constants_of(x));
    return errors;
  };
  sim::Bounds bounds{Eigen::VectorXd::Zero(5), Eigen::VectorXd::Constant(5, most)};
  bounds.low[0] = 1;  // no matrix product exceeds the peak
  Eigen::VectorXd start(5);
  start << 1, 2, 4, 1, 2;
  return constants_of(sim::least_squares(residuals, start, bounds, tolerance).x);
}

Roofline::ByArchitecture fit_roofline(const std::vector<std::vector<sim::MeasuredRun>>& sets,
                                      const std::vector<LayerSample>& volta, double update) {
  sim::Bounds bounds{Eigen::VectorXd::Zero(unknown_count), Eigen::VectorXd::Constant(unknown_count, most)};
  bounds.low.head(common_begin).setOnes();  // no product exceeds the peak
  bounds.low[unknown_count - 1] = 1;        // sequence parallelism takes no kernel away
  Eigen::VectorXd start(unknown_count);
  start << 1.3, 1.8, 2, 3, 5, 1, 5, 5, 1, 1.7;
  const Eigen::VectorXd fitted =
      sim::least_squares(
          [&](const Eigen::VectorXd& x) { return weighted_errors(sets, run_constants_of(x, update)); }, start,
          bounds, 1e-5)
          .x;
  Roofline::ByArchitecture constants = run_constants_of(fitted, update);
  // One `compute` and one `attention` for all generations, with these common constants.
  const auto with_other = [&](const Eigen::VectorXd& x) {
    Roofline::ByArchitecture result = constants;
    for (RooflineConstants& it : result) it.compute = x[0], it.attention = x[1];
    return result;
  };
  const Eigen::VectorXd other =
      sim::least_squares([&](const Eigen::VectorXd& x) { return weighted_errors(sets, with_other(x)); },
                         Eigen::Vector2d(1.6, 4), {Eigen::Vector2d::Ones(), Eigen::Vector2d::Constant(most)},
                         1e-5)
          .x;
  for (const Architecture it :
       {Architecture::other, Architecture::volta, Architecture::turing, Architecture::ada})
    constants[static_cast<std::size_t>(it)] = with_other(other)[static_cast<std::size_t>(it)];
  RooflineConstants& of_volta = constants[static_cast<std::size_t>(Architecture::volta)];
  const auto errors = [&](const Eigen::VectorXd& x) -> Eigen::VectorXd {
    RooflineConstants changed = of_volta;
    changed.compute = x[0];
    Eigen::VectorXd result(std::ssize(volta));
    for (Eigen::Index i = 0; i < result.size(); ++i)
      result[i] = relative_error(volta[static_cast<std::size_t>(i)], changed);
    return result;
  };
  const Eigen::VectorXd one = Eigen::VectorXd::Ones(1);
  of_volta.compute = sim::least_squares(errors, one, {one, most * one}, tolerance).x[0];
  return constants;
}

ErrorSummary summary(const std::vector<LayerSample>& samples, const Roofline& roofline) {
  ErrorSummary result;
  for (const LayerSample& sample : samples) {
    const double error = relative_error(sample, roofline.of(sample.gpu, sample.training));
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
    return uniform_roofline(fit_roofline(filter_samples(fitted, holds)));
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
