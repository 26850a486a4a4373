#include "simulator/calibration/calibrate.hpp"

#include <cmath>

#include "simulator/calibration/prediction.hpp"
#include "simulator/calibration/student_t.hpp"
#include "tests/support/calibration_runs.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"

using namespace dtfm;
using namespace dtfm::sim;

TEST_CASE("without noise the true constants are recovered", "[serial]") {
  for (const Calibration& constants : {truth, Calibration{0.7, 0, 1, 0, 0, 1}}) {
    const CalibrationFit fit = calibrate(designed_runs(constants), {shipped, 2, {}});
    for (std::size_t i = 0; i < CalibrationUncertainty::size; ++i) {
      CAPTURE(calibration_constants[i].name);
      CHECK(value(fit.constants, i) == Approx(value(constants, i)).epsilon(0.01).margin(1e-6));
      CHECK(fit.intervals[i].is_identified);
    }
    CHECK(outlier_rows(fit).empty());
  }
}

// One run cannot tell which constant is wrong, but corrects their combined effect.
TEST_CASE("one or three runs correct the prior and leave wide intervals", "[serial]") {
  const std::vector<MeasuredRun> all = designed_runs(truth);
  for (const std::size_t count : {1u, 3u}) {
    CAPTURE(count);
    const std::vector<MeasuredRun> runs(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
    const CalibrationFit fit = calibrate(runs, {shipped, 1, {}});
    const std::vector<double> before = simulate_seconds(runs, shipped, 1);
    for (std::size_t i = 0; i < count; ++i) {
      const RunFit& run = fit.runs[i];
      CHECK(std::abs(std::log(run.simulated_s / runs[i].seconds)) <
            0.1 * std::abs(std::log(before[i] / runs[i].seconds)));
      CHECK_FALSE(run.is_outlier);
      if (count == 1) CHECK(run.leave_one_out_s == Approx(before[i]));
    }
    CHECK_FALSE(fit.intervals[5].is_identified);  // they synchronize nothing
    CHECK(fit.spread.degrees_of_freedom == 4.0 + static_cast<double>(count));
    const auto seconds = [&](const Calibration& it) {
      return simulate_seconds({&all.back(), 1}, it, 1).front();
    };
    CHECK(prediction_factor(fit.constants, fit.spread, seconds) > 1 + 2 * assumed_model_error);
  }
}

TEST_CASE("a constant that the runs do not determine keeps its assumed value and is reported", "[serial]") {
  const CalibrationFit fit = calibrate(with_noise(designed_runs(truth, false), 3, 0.05), {shipped, 1, {}});
  for (std::size_t i = 0; i < CalibrationUncertainty::size; ++i)
    CHECK(fit.intervals[i].is_identified == (calibration_constants[i].name != "sync_efficiency"));
  CHECK(fit.constants.sync_efficiency == 1);
  CHECK(fit.intervals[5].high == 1);
  CHECK(fit.intervals[5].low < 0.6);
}

TEST_CASE("runs that no constants explain are outliers even if two of them agree", "[serial]") {
  const std::vector<MeasuredRun> runs = with_noise(designed_runs(truth), 7, 0.05);
  const CalibrationFit clean = calibrate(runs, {shipped, 1, {}});
  REQUIRE(outlier_rows(clean).empty());
  for (const std::vector<std::size_t>& spoilt : {std::vector<std::size_t>{20}, {4, 5}, {0, 25, 37}}) {
    std::vector<MeasuredRun> bad = runs;
    for (const std::size_t row : spoilt) bad[row].seconds *= 1.6;
    const CalibrationFit fit = calibrate(bad, {shipped, 1, {}});
    CHECK(outlier_rows(fit) == spoilt);
    for (std::size_t i = 0; i < CalibrationUncertainty::size; ++i) {
      CAPTURE(calibration_constants[i].name);
      CHECK(value(fit.constants, i) == Approx(value(clean.constants, i)).epsilon(0.05));
    }
    for (const std::size_t row : spoilt) CHECK(fit.runs[row].leave_one_out_s == fit.runs[row].simulated_s);
  }
}

// First the measured peaks are the predicted ones. Then one is raised and another lowered by 10 %.
TEST_CASE("the memory of a process is fitted by least squares of relative errors") {
  std::vector<MeasuredRun> runs = designed_runs(truth);
  runs.resize(6);
  Calibration with = shipped;
  with.process_memory_bytes = 3e9;
  const std::vector<double> peaks = predicted_peak_memory(runs, with);
  for (std::size_t i = 0; i < 4; ++i) runs[i].peak_memory_bytes = peaks[i];
  const CalibrationFit exact = calibrate(runs, {shipped, 1, {}});
  CHECK(exact.constants.process_memory_bytes == Approx(3e9));
  REQUIRE(exact.process_memory);
  // Exact peaks leave the assumed noise: (2 · 0.06²) ÷ 5 of relative errors.
  const double half_width = exact.process_memory->second - 3e9;
  CHECK(3e9 - exact.process_memory->first == Approx(half_width));
  double weights = 0;
  for (std::size_t i = 0; i < 4; ++i) weights += 1 / (peaks[i] * peaks[i]);
  CHECK(half_width == Approx(student_critical_value(0.05, 5) * std::sqrt(2 * 0.06 * 0.06 / 5 / weights)));
  for (std::size_t i = 0; i < runs.size(); ++i) CHECK(exact.runs[i].peak_memory_bytes == Approx(peaks[i]));
  runs[0].peak_memory_bytes *= 1.1;
  runs[1].peak_memory_bytes *= 0.9;
  const CalibrationFit noisy = calibrate(runs, {shipped, 1, {}});
  const auto squares = [&](double process) {
    double sum = 0;
    for (std::size_t i = 0; i < 4; ++i)
      sum += std::pow((peaks[i] - 3e9 + process) / runs[i].peak_memory_bytes - 1, 2);
    return sum;
  };
  const double fitted = noisy.constants.process_memory_bytes;
  CHECK(squares(fitted) <= squares(fitted * 1.001));
  CHECK(squares(fitted) <= squares(fitted * 0.999));
  CHECK(noisy.process_memory->first < fitted);
  CHECK(noisy.process_memory->second > fitted);
  for (MeasuredRun& run : runs) run.peak_memory_bytes = run.peak_memory_bytes > 0 ? 1 : 0;
  CHECK(calibrate(runs, {shipped, 1, {}}).constants.process_memory_bytes == 0);
}

TEST_CASE("the effect of a constant is the change of the time against its prior", "[serial]") {
  const std::vector<MeasuredRun> runs = designed_runs(truth);
  const CalibrationFit fit = calibrate(runs, {shipped, 2, {}});
  for (std::size_t i = 0; i < CalibrationUncertainty::size; ++i) {
    Calibration without = fit.constants;
    without.*calibration_constants[i].value = value(shipped, i);
    const std::vector<double> seconds = simulate_seconds(runs, without, 2);
    double largest = 0;
    for (std::size_t run = 0; run < runs.size(); ++run) {
      CHECK(fit.runs[run].effects[i] == Approx(fit.runs[run].simulated_s / seconds[run] - 1).margin(1e-9));
      largest = std::max(largest, std::abs(fit.runs[run].effects[i]));
    }
    CHECK(largest > 0.05);
  }
}

TEST_CASE("without measured peaks a fit keeps the memory of a process") {
  Calibration prior = shipped;
  prior.process_memory_bytes = 3e9;
  std::vector<MeasuredRun> runs = designed_runs(truth);
  runs.resize(5);
  CHECK(calibrate(runs, {prior, 1, {}}).constants.process_memory_bytes == 3e9);
}

// The fit to the other runs is repeated, and the run is simulated with the result. In the second case most
// constants are on a bound.
TEST_CASE("an excluded run is predicted by a fit to the others", "[serial]") {
  for (const Calibration& constants : {truth, Calibration{0.7, 0, 1, 0, 0, 1, 1, 2e-5}}) {
    const std::vector<MeasuredRun> runs = with_noise(designed_runs(constants), 11, 0.05);
    const CalibrationFit fit = calibrate(runs, {shipped, 1, {}});
    for (const std::size_t row : {0u, 8u, 19u, 25u, 33u, 47u}) {
      CAPTURE(row);
      std::vector<MeasuredRun> others = runs;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(row));
      const CalibrationFit without = calibrate(others, {shipped, 1, {}});
      const double expected_s = simulate_seconds(std::span(&runs[row], 1), without.constants, 1)[0];
      CHECK(fit.runs[row].leave_one_out_s == Approx(expected_s).epsilon(0.005));
    }
  }
}

TEST_CASE("calibration gives the same result for any number of threads") {
  const std::vector<MeasuredRun> runs = with_noise(designed_runs(truth), 1, 0.05);
  const CalibrationFit one = calibrate(runs, {shipped, 1, {}});
  for (const int threads : {2, 3, 8}) {
    const CalibrationFit other = calibrate(runs, {shipped, threads, {}});
    CHECK(other.constants == one.constants);
    CHECK(other.spread == one.spread);
  }
}

TEST_CASE("an empty list of runs is rejected, and five runs show how little they determine") {
  std::vector<MeasuredRun> runs = with_noise(designed_runs(truth), 1, 0.05);
  const std::vector<MeasuredRun> five(runs.begin(), runs.begin() + 5);
  CHECK(error_message([&] {
          calibrate({}, {shipped, 1, {}});
        }) == "no runs: fitting the constants requires at least one");
  const CalibrationFit fit = calibrate(five, {shipped, 1, {}});
  CHECK(fit.intervals[0].is_identified);
  CHECK(!fit.intervals[5].is_identified);
  CHECK(fit.spread.degrees_of_freedom > 2);
}
