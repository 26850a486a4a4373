// Prediction intervals of iteration times, from the uncertainty of the calibration constants or the errors on
// published runs.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "core/cluster/calibration.hpp"
#include "core/plan/plan.hpp"
#include "core/plan/problem.hpp"
#include "core/schedule/path_schedule.hpp"
#include "core/base/stop.hpp"

namespace dtfm::sim {

/// Coverage of all intervals, of constants and of times.
inline constexpr double confidence_level = 0.95;

/// The factor ≥ 1 by which a measured iteration time may be above or below the simulated one. `seconds_with`
/// returns the simulated seconds for given constants; it is called up to seven times. By the delta method,
/// the variance of the logarithm of the time is the residual variance of the runs plus gᵀ C g, where C is the
/// covariance of the constants and g the derivatives of the logarithm, by differences over one standard
/// deviation of each constant. The logarithm of the factor is the root of the variance times Student's t.
double prediction_factor(const Calibration& constants, const CalibrationUncertainty& spread,
                         const std::function<double(const Calibration&)>& seconds_with);

/// Errors of iterations that were published with all that a simulation needs, simulated with neutral
/// constants.
struct PublishedErrors {
  std::string_view source;       // the kind of these runs
  double residual = 0;           // root mean square of log (simulated ÷ measured)
  int runs = 0;                  // number of them
  double longest_latency_s = 0;  // between two sites of a run
};

/// All kinds: across sites, profiled, then those with estimated layer times.
/// tests/validation/published_run_accuracy compares them with the runs (docs/validation.md).
std::vector<PublishedErrors> published_errors_table();
/// Returns the kind of the plan: across sites; with a measured or imported profile of all GPUs; otherwise
/// estimated layer times, by the number of hosts and the generation of the GPUs; of several generations, the
/// one with the largest error decides.
const PublishedErrors& published_errors(const Problem& problem, const Plan& plan);
/// The factor ≥ 1 by which a measured time may be above or below the simulated one: the exponential of the
/// residual times Student's t.
double prediction_factor(const PublishedErrors& errors);

/// The longest latency between two devices of `plan` at different sites. 0 at a single site.
double longest_site_latency_s(const Topology& topology, const Plan& plan);

/// Range of the simulated iteration times of `plan` with every collective that could synchronize its
/// gradients, relative to that with its own.
struct CollectiveSpread {
  double low = 1, high = 1;  // low ≤ 1 ≤ high
};
/// `seconds_of` returns the simulated seconds of a plan.
CollectiveSpread collective_spread(const Plan& plan, const std::function<double(const Plan&)>& seconds_of);

/// Prediction interval around `seconds`, the mean iteration time of `plan` simulated with the constants of
/// `problem`, on the micro-batch `paths` if given, else as pipelines. It uses the `spread` of these constants
/// if given, otherwise the errors on published runs. A few runs may leave constants so uncertain that the
/// interval becomes wider than without them. It is no wider than needed to contain the interval of neutral
/// constants, which the errors on published runs give. If sites are farther apart than in all runs that the
/// errors are from, the interval is widened by the collective_spread, and its source says so. The factor is
/// that of an undisturbed iteration, and is applied to runs under any scenario. Throws WorkStopped.
PredictionInterval time_interval(const Problem& problem, const Plan& plan,
                                 const std::optional<CalibrationUncertainty>& spread, double seconds,
                                 const PathSchedule* paths = nullptr, const StopFunction& stop = {});

}  // namespace dtfm::sim
