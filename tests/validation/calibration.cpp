// Checks how well constants are recovered from noisy runs, and whether confidence intervals have their stated
// coverage.
#include <array>

#include "core/base/parallel.hpp"
#include "simulator/calibration/prediction.hpp"
#include "tests/support/calibration_runs.hpp"
#include "tests/support/catch.hpp"

using namespace dtfm;
using namespace dtfm::sim;

TEST_CASE("with 5 % noise 90 of 100 fits have constants within 5 % and within their intervals") {
  constexpr int seeds = 100;
  const std::vector<MeasuredRun> runs = designed_runs(truth);
  struct Hits {
    std::array<int, CalibrationUncertainty::size> near = {}, inside = {};
    int outliers = 0, predicted = 0;
  };
  const std::vector<Hits> hits = parallel_map(seeds, 2, [&](int seed) {
    const auto stream = static_cast<std::uint64_t>(seed);
    const CalibrationFit fit = calibrate(with_noise(runs, stream, 0.05), {shipped, 1, {}});
    Hits its;
    for (std::size_t i = 0; i < CalibrationUncertainty::size; ++i) {
      its.near[i] = std::abs(value(fit.constants, i) / value(truth, i) - 1) <= 0.05;
      its.inside[i] = fit.intervals[i].low <= value(truth, i) && value(truth, i) <= fit.intervals[i].high;
    }
    its.outliers = static_cast<int>(outlier_rows(fit).size());
    // A run measured independently, a different one for each seed.
    Rng rng = Rng::for_task(stream, 1);
    const MeasuredRun& next = runs[rng.below(static_cast<std::uint32_t>(runs.size()))];
    const double factor = prediction_factor(fit.constants, fit.spread, [&](const Calibration& it) {
      return simulate_seconds(std::span(&next, 1), it, 1)[0];
    });
    const double simulated_s = simulate_seconds(std::span(&next, 1), fit.constants, 1)[0];
    const double off = std::abs(std::log(next.seconds * std::exp(0.05 * noise(rng)) / simulated_s));
    its.predicted = off <= std::log(factor);
    return its;
  });
  Hits sum;
  for (const Hits& it : hits) {
    for (std::size_t i = 0; i < CalibrationUncertainty::size; ++i) {
      sum.near[i] += it.near[i];
      sum.inside[i] += it.inside[i];
    }
    sum.outliers += it.outliers;
    sum.predicted += it.predicted;
  }
  for (std::size_t i = 0; i < CalibrationUncertainty::size; ++i) {
    CAPTURE(calibration_constants[i].name, sum.near[i], sum.inside[i]);
    CHECK(sum.near[i] >= 90);
    CHECK(sum.inside[i] >= 90);
    CHECK(sum.inside[i] < seeds);  // otherwise the intervals would be too wide
  }
  CHECK(sum.predicted >= 90);
  CHECK(sum.outliers <= 5);  // one table in a hundred is expected to have one
}
