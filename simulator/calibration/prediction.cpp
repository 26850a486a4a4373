#include "simulator/calibration/prediction.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/index.hpp"
#include "core/plan/layer_times.hpp"
#include "simulator/calibration/student_t.hpp"
#include "simulator/simulate.hpp"

namespace dtfm::sim {
namespace {

constexpr std::size_t size = CalibrationUncertainty::size;

constexpr std::array published = {
    PublishedErrors{"published runs, several sites", 0.167, 50},
    PublishedErrors{"published runs, profiled layer times", 0.07, 15},
    PublishedErrors{"published runs, estimated layer times, one host", 0.104, 120},
    PublishedErrors{"published runs, estimated layer times, several hosts", 0.124, 36},
};

/// Moves the i-th constant by one standard deviation, downward if a share would exceed 1. Returns the change.
double perturb(Calibration& constants, std::size_t i, double deviation) {
  double& value = constants.*calibration_constants[i].value;
  const double before = value;
  const bool is_share = calibration_constants[i].kind == CalibrationConstant::Kind::share;
  value = is_share && before + deviation > 1 ? before - std::min(deviation, before / 2) : before + deviation;
  return value - before;
}

}  // namespace

double prediction_factor(const Calibration& constants, const CalibrationUncertainty& spread,
                         const std::function<double(const Calibration&)>& seconds_with) {
  const double seconds = seconds_with(constants);
  if (!(seconds > 0)) return 1;
  std::array<double, size> derivatives = {};
  for (std::size_t i = 0; i < size; ++i) {
    Calibration other = constants;
    const double step = perturb(other, i, std::sqrt(spread.covariance[i][i]));
    if (step != 0) derivatives[i] = std::log(seconds_with(other) / seconds) / step;
  }
  double variance = 0;
  for (std::size_t i = 0; i < size; ++i)
    for (std::size_t k = 0; k < size; ++k)
      variance += derivatives[i] * spread.covariance[i][k] * derivatives[k];
  variance = std::max(variance, 0.0) + spread.residual * spread.residual;
  constexpr double max_logarithm = 50;  // so that bounds of useless intervals are still finite
  return std::exp(std::min(
      max_logarithm,
      student_critical_value(1 - confidence_level, spread.degrees_of_freedom) * std::sqrt(variance)));
}

std::span<const PublishedErrors> published_errors_table() {
  return published;
}

const PublishedErrors& published_errors(const Problem& problem, const Plan& plan) {
  const Topology& topology = problem.topology;
  const Device& first = topology.devices[at(plan.pipelines.front().stages.front().devices.front())];
  bool is_one_site = true, is_one_host = true, has_profiles = true;
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      for (const int number : stage.devices) {
        const Device& device = topology.devices[at(number)];
        is_one_site = is_one_site && device.site == first.site;
        is_one_host = is_one_host && device.host == first.host;
        const LayerProfile* profile =
            device.gpu < 0 ? nullptr : profile_of(problem.job, topology.gpus[at(device.gpu)]);
        has_profiles = has_profiles && profile && profile->source != LayerProfile::Source::estimated;
      }
  if (!is_one_site) return published[0];
  if (has_profiles) return published[1];
  return is_one_host ? published[2] : published[3];
}

double prediction_factor(const PublishedErrors& errors) {
  return std::exp(student_critical_value(1 - confidence_level, errors.runs) * errors.residual);
}

PredictionInterval time_interval(const Problem& problem, const Plan& plan,
                                 const std::optional<CalibrationUncertainty>& spread, double seconds,
                                 const PathSchedule* paths, const StopFunction& stop) {
  if (!spread) {
    const PublishedErrors& errors = published_errors(problem, plan);
    const double factor = prediction_factor(errors);
    return {seconds / factor, seconds * factor, confidence_level, errors.source};
  }
  Problem other = problem;
  const double factor = prediction_factor(problem.constants, *spread, [&](const Calibration& constants) {
    other.constants = constants;
    return undisturbed_seconds(other, plan, 1, paths, stop);
  });
  return {seconds / factor, seconds * factor, confidence_level, "calibration"};
}

}  // namespace dtfm::sim
