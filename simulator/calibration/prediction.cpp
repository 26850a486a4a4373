#include "simulator/calibration/prediction.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/collectives/collective.hpp"
#include "core/plan/layer_times.hpp"
#include "core/plan/optimizer_sharding.hpp"
#include "simulator/calibration/student_t.hpp"
#include "simulator/simulate.hpp"

namespace dtfm::sim {
namespace {

constexpr std::size_t size = CalibrationUncertainty::size;

constexpr PublishedErrors across_sites{"published runs, several sites", 0.167, 50, 0.05},
    profiled{"published runs, profiled layer times", 0.07, 15};

/// Runs with estimated layer times on at most `max_hosts` hosts of one site.
struct EstimatedErrors {
  Architecture architecture;  // `other` stands for all
  std::size_t max_hosts;
  PublishedErrors errors;
};

constexpr std::size_t any_number = static_cast<std::size_t>(-1);

/// The first row that fits applies.
constexpr std::array estimated = {
    EstimatedErrors{
        Architecture::ampere, 1, {"published runs, estimated layer times, Ampere, one host", 0.1, 141}},
    EstimatedErrors{Architecture::ampere,
                    any_number,
                    {"published runs, estimated layer times, Ampere, several hosts", 0.104, 43}},
    EstimatedErrors{
        Architecture::hopper, 1, {"published runs, estimated layer times, Hopper, one host", 0.0583, 14}},
    EstimatedErrors{
        Architecture::hopper, 8, {"published runs, estimated layer times, Hopper, 2 to 8 hosts", 0.0556, 23}},
    EstimatedErrors{Architecture::hopper,
                    any_number,
                    {"published runs, estimated layer times, Hopper, more hosts", 0.129, 25}},
    EstimatedErrors{Architecture::blackwell,
                    1,
                    {"published runs, estimated layer times, Blackwell, one host", 0.0788, 9}},
    EstimatedErrors{Architecture::other,
                    1,
                    {"published runs, estimated layer times, other generations, one host", 0.144, 164}},
    EstimatedErrors{Architecture::other,
                    any_number,
                    {"published runs, estimated layer times, other generations, several hosts", 0.125, 91}},
};

const PublishedErrors& estimated_errors(Architecture architecture, std::size_t hosts) {
  return std::ranges::find_if(estimated,
                              [&](const EstimatedErrors& row) {
                                return hosts <= row.max_hosts && (row.architecture == architecture ||
                                                                  row.architecture == Architecture::other);
                              })
      ->errors;
}

/// Moves the i-th constant by one standard deviation, downward if a share would exceed 1. Returns the change.
double perturb(Calibration& constants, std::size_t i, double deviation) {
  double& value = constants.*calibration_constants[i].value;
  const double before = value;
  const bool is_share = calibration_constants[i].kind == CalibrationConstant::Kind::share;
  value = is_share && before + deviation > 1 ? before - std::min(deviation, before / 2) : before + deviation;
  return value - before;
}

struct SourcedFactor {
  double factor = 1;
  std::string_view source;
};

/// The factor of the calibration, limited by that of the errors on published runs (time_interval).
SourcedFactor known_factor(const Calibration& constants, const std::optional<CalibrationUncertainty>& spread,
                           const PublishedErrors& errors,
                           const std::function<double(const Calibration&)>& seconds_with) {
  const double published = prediction_factor(errors);
  if (!spread) return {published, errors.source};
  const SourcedFactor calibrated{prediction_factor(constants, *spread, seconds_with), "calibration"};
  if (calibrated.factor <= published) return calibrated;
  const double neutral_s = seconds_with(Calibration()), calibrated_s = seconds_with(constants);
  if (!(neutral_s > 0) || !(calibrated_s > 0)) return calibrated;
  const double limit = published * std::exp(std::abs(std::log(calibrated_s / neutral_s)));
  return limit < calibrated.factor ? SourcedFactor{limit, errors.source} : calibrated;
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

std::vector<PublishedErrors> published_errors_table() {
  std::vector<PublishedErrors> table = {across_sites, profiled};
  for (const EstimatedErrors& row : estimated) table.push_back(row.errors);
  return table;
}

const PublishedErrors& published_errors(const Problem& problem, const Plan& plan) {
  const Topology& topology = problem.topology;
  std::set<int> sites, hosts;
  std::set<Architecture> unprofiled;
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      for (const int number : stage.devices) {
        const Device& device = topology.devices[at(number)];
        sites.insert(device.site);
        hosts.insert(device.host);
        const Gpu* gpu = device.gpu < 0 ? nullptr : &topology.gpus[at(device.gpu)];
        const LayerProfile* profile = gpu ? profile_of(problem.job, *gpu) : nullptr;
        if (!profile || profile->source == LayerProfile::Source::estimated)
          unprofiled.insert(gpu ? gpu->architecture : Architecture::other);
      }
  if (sites.size() > 1) return across_sites;
  if (unprofiled.empty()) return profiled;
  const PublishedErrors* worst = nullptr;
  for (const Architecture architecture : unprofiled)
    if (const PublishedErrors& it = estimated_errors(architecture, hosts.size());
        worst == nullptr || it.residual > worst->residual)
      worst = &it;
  return *worst;
}

double prediction_factor(const PublishedErrors& errors) {
  return std::exp(student_critical_value(1 - confidence_level, errors.runs) * errors.residual);
}

double longest_site_latency_s(const Topology& topology, const Plan& plan) {
  std::vector<int> devices;
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      devices.insert(devices.end(), stage.devices.begin(), stage.devices.end());
  double result = 0;
  for (const int from : devices)
    for (const int to : devices)
      if (topology.devices[at(from)].site != topology.devices[at(to)].site)
        result = std::max(result, topology.link(from, to).latency.value());
  return result;
}

CollectiveSpread collective_spread(const Plan& plan, const std::function<double(const Plan&)>& seconds_of) {
  CollectiveSpread result;
  if (plan.pipelines.size() < 2 || !traits(plan.execution.gradient_sync).messages) return result;
  const double seconds = seconds_of(plan);
  if (!(seconds > 0)) return result;
  for (const GradientSyncTraits& sync : gradient_sync_table()) {
    Plan other = plan;
    other.execution.gradient_sync = sync.kind;
    if (sync.kind == plan.execution.gradient_sync || !sync.messages || !sync.in_jobs || sync.has_instances ||
        !can_shard(other.execution))
      continue;
    const double ratio = seconds_of(other) / seconds;
    result.low = std::min(result.low, ratio);
    result.high = std::max(result.high, ratio);
  }
  return result;
}

PredictionInterval time_interval(const Problem& problem, const Plan& plan,
                                 const std::optional<CalibrationUncertainty>& spread, double seconds,
                                 const PathSchedule* paths, const StopFunction& stop) {
  const PublishedErrors& errors = published_errors(problem, plan);
  const auto seconds_with = [&](const Calibration& constants) {
    Problem other = problem;
    other.constants = constants;
    return undisturbed_seconds(other, plan, 1, paths, stop);
  };
  const SourcedFactor factor = known_factor(problem.constants, spread, errors, seconds_with);
  PredictionInterval result{seconds / factor.factor, seconds * factor.factor, confidence_level,
                            std::string(factor.source)};
  const double longest_latency_s = std::max(errors.longest_latency_s, spread ? spread->longest_latency_s : 0);
  if (longest_site_latency_s(problem.topology, plan) <= longest_latency_s) return result;
  const CollectiveSpread collectives = collective_spread(
      plan, [&](const Plan& other) { return undisturbed_seconds(problem, other, 1, paths, stop); });
  result.low_s *= collectives.low;
  result.high_s *= collectives.high;
  result.source += fmt::format(", widened by other collectives beyond {:.4g} ms", 1e3 * longest_latency_s);
  return result;
}

}  // namespace dtfm::sim
