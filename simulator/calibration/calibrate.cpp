#include "simulator/calibration/calibrate.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include <Eigen/Dense>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "simulator/calibration/least_squares.hpp"
#include "simulator/calibration/prediction.hpp"
#include "simulator/calibration/student_t.hpp"

namespace dtfm::sim {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;
using Kind = CalibrationConstant::Kind;

constexpr auto constant_count = static_cast<Eigen::Index>(CalibrationUncertainty::size);

// The prior, which is no more than an order of magnitude (docs/how-it-works.md): standard deviations of the
// constants about their prior means, and the relative noise of measured times, weighted like that many runs.
constexpr std::array<double, CalibrationUncertainty::size> assumed_deviation = {0.5,  0.02, 0.5, 2,
                                                                                0.02, 0.5,  0.5, 1e-5};
constexpr double assumed_noise = 0.05, assumed_noise_weight = 2;
// Likewise of measured peaks: the root mean square of the errors on nanotron's runs (docs/validation.md).
constexpr double assumed_memory_noise = 0.06;
// The weight of assumed_model_error, in runs. The few runs of a fit may agree better than others will.
constexpr double assumed_model_error_weight = 4;
// Tolerances of least_squares. At the fine one, the remaining error of any constant is less than a tenth of
// its standard deviation.
constexpr double fine_tolerance = 1e-4, coarse_tolerance = 1e-2;
// Smaller errors may be those of the model, three standard deviations at most, rather than mistakes.
constexpr double min_outlier_error = 3 * assumed_model_error;
constexpr double outlier_chance = 0.01;  // probability of reporting an outlier where there is none

const CalibrationConstant& constant(Eigen::Index i) {
  return calibration_constants[static_cast<std::size_t>(i)];
}

/// Transforms a constant so that times are nearly linear in it: a share to its inverse. The function is its
/// own inverse.
double linear(double value, Kind kind) {
  return kind == Kind::share ? 1 / value : value;
}

/// The constants as unknowns of the fit: deviations from the prior mean in units of the prior standard
/// deviation.
class Unknowns {
 public:
  explicit Unknowns(const Calibration& prior) : prior_(prior) {
    bounds_ = {VectorXd(constant_count), VectorXd(constant_count)};
    for (Eigen::Index i = 0; i < constant_count; ++i) {
      constexpr double min_factor = 0.01, max_factor = 100, max_seconds = 1e6;
      const Kind kind = constant(i).kind;
      const double low = kind == Kind::seconds ? 0 : kind == Kind::share ? 1 : min_factor;
      bounds_.low[i] = (low - center(i)) / deviation(i);
      bounds_.high[i] = ((kind == Kind::seconds ? max_seconds : max_factor) - center(i)) / deviation(i);
    }
  }

  const Bounds& bounds() const { return bounds_; }
  double value(Eigen::Index i, double x) const {
    const double nearest = std::clamp(x, bounds_.low[i], bounds_.high[i]);
    // The exact value on a bound, without rounding errors of the transformation.
    if (nearest == bounds_.low[i] && constant(i).kind != Kind::factor)
      return constant(i).kind == Kind::share ? 1 : 0;
    return linear(center(i) + nearest * deviation(i), constant(i).kind);
  }
  Calibration constants(const VectorXd& x) const {
    Calibration result = prior_;  // for what is not fitted
    for (Eigen::Index i = 0; i < constant_count; ++i) result.*constant(i).value = value(i, x[i]);
    return result;
  }
  /// d value ÷ d x.
  double derivative(Eigen::Index i, double x) const {
    const double share_derivative = constant(i).kind == Kind::share ? -value(i, x) * value(i, x) : 1;
    return share_derivative * deviation(i);
  }

 private:
  double center(Eigen::Index i) const { return linear(prior_.*constant(i).value, constant(i).kind); }
  double deviation(Eigen::Index i) const { return assumed_deviation[static_cast<std::size_t>(i)]; }

  Calibration prior_;
  Bounds bounds_;
};

/// A fit to a subset of the runs.
struct Estimate {
  std::vector<std::size_t> rows;  // indices of the runs
  VectorXd x, errors;             // x: unknowns; errors: log (simulated ÷ measured) of each row
  MatrixXd jacobian;              // of the errors, [row, unknown]
  MatrixXd free_inverse;          // (JᵀJ + weight · I)⁻¹ over the unknowns that are not on a bound
  VectorXd leverage;              // of each row
  double weight = 0;              // of the prior: the noise variance that the fit assumed
  double variance = 0, degrees_of_freedom = 0;  // of the remaining errors
};

class Calibrator {
 public:
  Calibrator(std::span<const MeasuredRun> runs, const CalibrateSettings& settings)
      : runs_(runs), settings_(settings), unknowns_(settings.prior) {}

  CalibrationFit fit();

 private:
  VectorXd errors_of(const std::vector<std::size_t>& rows, const VectorXd& x) const;
  Estimate estimate(std::vector<std::size_t> rows, const VectorXd& start, double variance,
                    double squares_tolerance) const;
  void update_statistics(Estimate& estimate) const;
  Estimate without_outliers() const;
  std::vector<RunFit> run_fits(const Estimate& estimate) const;
  void find_effects(const Estimate& estimate, std::vector<RunFit>& runs) const;
  void fit_memory(CalibrationFit& fit) const;
  CalibrationFit make_fit(const Estimate& estimate) const;
  MatrixXd normal(const Estimate& estimate) const;
  void report_progress(double share, std::string_view what) const {
    if (settings_.on_progress) settings_.on_progress({.share = share, .what = what});
  }

  std::span<const MeasuredRun> runs_;
  const CalibrateSettings& settings_;
  const Unknowns unknowns_;
};

VectorXd Calibrator::errors_of(const std::vector<std::size_t>& rows, const VectorXd& x) const {
  if (is_stopped(settings_.stop)) throw WorkStopped();
  constexpr double min_s = 1e-9;  // lower limit, for a plan that computes and sends nothing
  std::vector<MeasuredRun> runs;
  for (const std::size_t row : rows) runs.push_back(runs_[row]);
  const std::vector<double> seconds = simulate_seconds(runs, unknowns_.constants(x), settings_.threads);
  VectorXd errors(static_cast<Eigen::Index>(rows.size()));
  for (std::size_t i = 0; i < rows.size(); ++i)
    errors[static_cast<Eigen::Index>(i)] = std::log(std::max(seconds[i], min_s) / runs[i].seconds);
  return errors;
}

MatrixXd Calibrator::normal(const Estimate& estimate) const {
  MatrixXd result = estimate.jacobian.transpose() * estimate.jacobian;
  result.diagonal().array() += estimate.weight;
  return result;
}

/// Sets the members that follow from x, errors, jacobian and weight. Constants on a bound count as known.
void Calibrator::update_statistics(Estimate& estimate) const {
  const Bounds& bounds = unknowns_.bounds();
  MatrixXd free_normal = normal(estimate), is_free = MatrixXd::Identity(constant_count, constant_count);
  for (Eigen::Index i = 0; i < constant_count; ++i) {
    if (estimate.x[i] > bounds.low[i] && estimate.x[i] < bounds.high[i]) continue;
    free_normal.row(i).setZero();
    free_normal.col(i).setZero();
    free_normal(i, i) = 1;
    is_free(i, i) = 0;
  }
  // Rows and columns of known constants are 0, so no step moves them.
  estimate.free_inverse = is_free * free_normal.ldlt().solve(is_free);
  estimate.leverage =
      (estimate.jacobian * estimate.free_inverse).cwiseProduct(estimate.jacobian).rowwise().sum();
  const double rows = static_cast<double>(estimate.rows.size());
  estimate.degrees_of_freedom = assumed_noise_weight + rows - estimate.leverage.sum();
  const double assumed = assumed_noise_weight * assumed_noise * assumed_noise;
  estimate.variance = (assumed + estimate.errors.squaredNorm()) / estimate.degrees_of_freedom;
}

/// Repeats the fit until its assumed noise equals the remaining noise. The assumed noise never exceeds that
/// of the prior: otherwise a fit that is bad at first would give the runs so little weight that it stays bad.
Estimate Calibrator::estimate(std::vector<std::size_t> rows, const VectorXd& start, double variance,
                              double squares_tolerance) const {
  constexpr int max_rounds = 5;
  constexpr double tolerance = 0.05;  // relative change of the variance
  Estimate result;
  result.rows = std::move(rows);
  result.x = start;
  result.weight = std::min(variance, assumed_noise * assumed_noise);
  const auto count = static_cast<Eigen::Index>(result.rows.size());
  LeastSquaresFit fit;
  for (int round = 0; round < max_rounds; ++round) {
    const double noise = std::sqrt(result.weight);
    const Residuals residuals = [&](const VectorXd& x) -> VectorXd {
      VectorXd all(count + constant_count);
      all << errors_of(result.rows, x), noise * x;
      return all;
    };
    if (round == 0) {
      fit = least_squares(residuals, result.x, unknowns_.bounds(), squares_tolerance);
    } else {  // only the weight of the prior has changed
      fit.residuals.tail(constant_count) = noise * fit.x;
      fit.jacobian.bottomRows(constant_count).diagonal().setConstant(noise);
      fit = least_squares(residuals, std::move(fit), unknowns_.bounds(), squares_tolerance);
    }
    result.x = fit.x;
    result.errors = fit.residuals.head(count);
    result.jacobian = fit.jacobian.topRows(count);
    update_statistics(result);
    const double weight = std::min(result.variance, assumed_noise * assumed_noise);
    if (std::abs(weight / result.weight - 1) < tolerance) break;
    result.weight = weight;
  }
  return result;
}

struct WorstResidual {
  std::size_t row = 0;
  double chance = 1;          // probability of such a residual among all rows, by Bonferroni's bound
  double left_out_error = 0;  // error of the row if it is not fitted, by its leverage
};

/// The row with the largest externally studentised residual: the residual over its standard deviation
/// estimated without the row.
WorstResidual worst_residual(const Estimate& estimate) {
  WorstResidual result;
  double largest = -1;
  for (std::size_t i = 0; i < estimate.rows.size(); ++i) {
    const auto row = static_cast<Eigen::Index>(i);
    const double rest = std::max(1 - estimate.leverage[row], 1e-9);
    const double square = estimate.errors[row] * estimate.errors[row] / rest;
    const double others =
        (estimate.degrees_of_freedom * estimate.variance - square) / (estimate.degrees_of_freedom - 1);
    const double t = others > 0 ? std::sqrt(square / others) : 1e9;
    if (t <= largest) continue;
    largest = t;
    result = {
        i,
        static_cast<double>(estimate.rows.size()) * student_two_sided_p(t, estimate.degrees_of_freedom - 1),
        estimate.errors[row] / rest};
  }
  return result;
}

/// Rosner's generalised extreme Studentised deviate test for residuals of a regression (Paul and Fung, 1991):
/// repeatedly removes the run with the largest residual and fits again, for up to a fifth of all runs. The
/// last step whose residual is significant gives the number of outliers, so that two similar outliers do not
/// mask each other.
Estimate Calibrator::without_outliers() const {
  std::vector<std::size_t> rows(runs_.size());
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  const std::size_t max_outliers =
      std::min(rows.size() / 5, rows.size() - std::min(rows.size(), min_runs_besides_outliers));
  report_progress(0, "fitting all runs");
  const Estimate all =
      estimate(rows, VectorXd::Zero(constant_count), assumed_noise * assumed_noise, fine_tolerance);
  Estimate now = all;
  std::optional<Estimate> best;
  for (std::size_t left_out = 1; left_out <= max_outliers; ++left_out) {
    report_progress(static_cast<double>(left_out) / static_cast<double>(max_outliers + 1),
                    "looking for outliers");
    const WorstResidual worst = worst_residual(now);
    rows = now.rows;
    rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(worst.row));
    now = estimate(rows, now.x, now.variance, coarse_tolerance);
    if (worst.chance < outlier_chance && std::abs(worst.left_out_error) > min_outlier_error) best = now;
  }
  return best ? estimate(best->rows, best->x, best->variance, fine_tolerance) : all;
}

/// For each run, approximates the constants fitted without it by the known derivatives, within the bounds,
/// and simulates the run with them.
std::vector<RunFit> Calibrator::run_fits(const Estimate& estimate) const {
  constexpr double linear_tolerance = 1e-12, close = 0.003;  // change of log times
  constexpr int rounds = 4;
  const std::vector<double> simulated =
      simulate_seconds(runs_, unknowns_.constants(estimate.x), settings_.threads);
  std::vector<RunFit> result;
  for (const double seconds : simulated) result.push_back({seconds, seconds, true});
  for (std::size_t i = 0; i < estimate.rows.size(); ++i) {
    const auto row = static_cast<Eigen::Index>(i);
    VectorXd x = estimate.x, errors = estimate.errors;
    for (int round = 0; round < rounds; ++round) {
      if (round > 0) errors = errors_of(estimate.rows, x);
      const VectorXd from = x;
      const Residuals without_run = [&](const VectorXd& to) -> VectorXd {
        VectorXd all(errors.size() + constant_count);
        all << errors + estimate.jacobian * (to - from), std::sqrt(estimate.weight) * to;
        all[row] = 0;
        return all;
      };
      x = least_squares(without_run, from, unknowns_.bounds(), linear_tolerance).x;
      if ((estimate.jacobian * (x - from)).cwiseAbs().maxCoeff() < close) break;
    }
    RunFit& run = result[estimate.rows[i]];
    run.leave_one_out_s = runs_[estimate.rows[i]].seconds * std::exp(errors_of({estimate.rows[i]}, x)[0]);
    run.is_outlier = false;
  }
  return result;
}

/// Sets the effects of the constants on each run.
void Calibrator::find_effects(const Estimate& estimate, std::vector<RunFit>& runs) const {
  for (Eigen::Index i = 0; i < constant_count; ++i) {
    if (estimate.x[i] == 0) continue;
    VectorXd x = estimate.x;
    x[i] = 0;
    const std::vector<double> without = simulate_seconds(runs_, unknowns_.constants(x), settings_.threads);
    for (std::size_t run = 0; run < runs.size(); ++run)
      if (without[run] > 0)
        runs[run].effects[static_cast<std::size_t>(i)] = runs[run].simulated_s / without[run] - 1;
  }
}

/// Fits process_memory_bytes, which is added to every predicted peak, by weighted least squares.
void Calibrator::fit_memory(CalibrationFit& fit) const {
  Calibration constants = fit.constants;
  constants.process_memory_bytes = 0;
  if (std::none_of(runs_.begin(), runs_.end(), [](const auto& run) { return run.peak_memory_bytes > 0; }))
    return;
  const std::vector<double> others = predicted_peak_memory(runs_, constants);
  double weights = 0, sum = 0, squares = 0, count = 0;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const double measured = runs_[i].peak_memory_bytes;
    if (measured == 0) continue;
    weights += 1 / (measured * measured);
    sum += (measured - others[i]) / (measured * measured);
    ++count;
  }
  if (count >= 2) fit.constants.process_memory_bytes = std::max(0.0, sum / weights);
  const std::vector<double> peaks = predicted_peak_memory(runs_, fit.constants);
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    fit.runs[i].peak_memory_bytes = peaks[i];
    if (const double measured = runs_[i].peak_memory_bytes; measured > 0)
      squares += std::pow(peaks[i] / measured - 1, 2);
  }
  if (count < 2) return;
  const double process = fit.constants.process_memory_bytes;
  const double degrees_of_freedom = assumed_noise_weight + count - 1,
               variance = (assumed_noise_weight * assumed_memory_noise * assumed_memory_noise + squares) /
                          degrees_of_freedom;
  const double half =
      student_critical_value(1 - confidence_level, degrees_of_freedom) * std::sqrt(variance / weights);
  fit.process_memory = {std::max(0.0, process - half), process + half};
}

CalibrationFit Calibrator::make_fit(const Estimate& estimate) const {
  CalibrationFit result;
  result.constants = unknowns_.constants(estimate.x);
  result.residual = std::sqrt(estimate.variance);
  result.degrees_of_freedom = estimate.degrees_of_freedom;
  result.runs = run_fits(estimate);
  double squares = assumed_model_error_weight * assumed_model_error * assumed_model_error;
  for (const std::size_t row : estimate.rows) {
    const double error = std::log(result.runs[row].leave_one_out_s / runs_[row].seconds);
    squares += error * error;
  }
  result.spread.degrees_of_freedom = assumed_model_error_weight + static_cast<double>(estimate.rows.size());
  result.spread.residual = std::sqrt(squares / result.spread.degrees_of_freedom);
  for (const std::size_t row : estimate.rows) {
    const Workload& work = *runs_[row].work;
    result.spread.longest_latency_s =
        std::max(result.spread.longest_latency_s, longest_site_latency_s(*work.topology, work.plan));
  }
  const MatrixXd covariance =
      estimate.variance * normal(estimate).ldlt().solve(MatrixXd::Identity(constant_count, constant_count));
  const double bound = student_critical_value(1 - confidence_level, estimate.degrees_of_freedom);
  for (Eigen::Index i = 0; i < constant_count; ++i) {
    for (Eigen::Index k = 0; k < constant_count; ++k)
      result.spread.covariance[static_cast<std::size_t>(i)][static_cast<std::size_t>(k)] =
          (covariance(i, k) + covariance(k, i)) / 2 * unknowns_.derivative(i, estimate.x[i]) *
          unknowns_.derivative(k, estimate.x[k]);
    const double deviation = std::sqrt(covariance(i, i));
    const auto ends = std::minmax({unknowns_.value(i, estimate.x[i] - bound * deviation),
                                   unknowns_.value(i, estimate.x[i] + bound * deviation)});
    result.intervals[static_cast<std::size_t>(i)] = {ends.first, ends.second, deviation < 0.5};
  }
  return result;
}

CalibrationFit Calibrator::fit() {
  if (runs_.empty()) throw Error("", "no runs: fitting the constants requires at least one");
  const Estimate best = without_outliers();
  CalibrationFit result = make_fit(best);
  find_effects(best, result.runs);
  fit_memory(result);
  return result;
}

}  // namespace

CalibrationFit calibrate(std::span<const MeasuredRun> runs, const CalibrateSettings& settings) {
  return Calibrator(runs, settings).fit();
}

}  // namespace dtfm::sim
