#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include "core/io/readers/calibration_reader.hpp"
#include "simulator/calibration/prediction.hpp"
#include "simulator/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/validation/measured_runs.hpp"

using namespace dtfm;
using namespace dtfm::io;
using namespace dtfm::sim;

namespace {

const std::vector<MeasuredRun>& runs() {
  static const std::vector<MeasuredRun> all =
      read_measured_runs(std::string(DTFM_SOURCE_DIR) + "/tests/validation");
  return all;
}

constexpr int threads = 2;

}  // namespace

TEST_CASE("all measured rows on five networks are present") {
  CHECK(runs().size() == 50);
  CHECK(network_names(runs()).size() == 5);
}

TEST_CASE("simulated iterations are within 6 % of measured ones on average and all but two within 15 %") {
  const std::vector<double> errors = relative_errors(runs(), shipped_calibration("v100").constants, threads);
  CHECK(mean_absolute(errors) <= 0.06);
  std::set<std::string> beyond;
  for (std::size_t i = 0; i < errors.size(); ++i)
    if (std::abs(errors[i]) > 0.149) beyond.insert(runs()[i].network + ", " + runs()[i].name);
  // configs/calibrations/v100.yaml explains these two.
  CHECK(beyond == std::set<std::string>{"10ms-1gbps, 3 layers a stage, batch 32, 1 pipeline",
                                        "50ms-1gbps, 3 layers a stage, batch 32, 1 pipeline"});
}

// Seconds = overhead + x · share, where x is the duration of the message at the full rate. The least squares
// of relative errors are those of 1 = overhead ÷ seconds + share · x ÷ seconds.
TEST_CASE("the overhead of a message is that of single messages for either definition of a megabyte") {
  struct Message {
    double megabytes, bits_per_second, delay_s, seconds;
  };
  const std::vector<Message> messages = {
      {64, 10e9, 0, 0.055},    {64, 5e9, 0, 0.109},     {64, 2e9, 0, 0.270},     {64, 1e9, 0, 0.541},
      {64, 5e9, 0.001, 0.110}, {64, 2e9, 0.005, 0.275}, {64, 1e9, 0.010, 0.543}, {128, 1e9, 0.010, 1.083}};
  for (const double megabyte : {1e6, 1048576.0}) {
    double oo = 0, os = 0, ss = 0, o = 0, s = 0;
    for (const Message& it : messages) {
      const double seconds = it.seconds - it.delay_s;
      const double overhead = 1 / seconds, share = it.megabytes * megabyte * 8 / it.bits_per_second / seconds;
      oo += overhead * overhead;
      os += overhead * share;
      ss += share * share;
      o += overhead;
      s += share;
    }
    const double overhead_s = (o * ss - s * os) / (oo * ss - os * os);
    CHECK(shipped_calibration("v100").constants.message_overhead_s == Approx(overhead_s).epsilon(0.02));
  }
}

TEST_CASE("the constants in use are the fitted ones") {
  const Calibration in_use = shipped_calibration("v100").constants,
                    fitted = fit_calibration(runs(), directly_measured_constants(), threads);
  // The time of a block is in configs/profiles/v100.json, so the compute scale is 1.
  CHECK(in_use.compute_scale == 1);
  CHECK(fitted.compute_scale == Approx(1).epsilon(0.005));
  CHECK(in_use.message_overhead_s == fitted.message_overhead_s);
  CHECK(in_use.network_efficiency == Approx(fitted.network_efficiency).epsilon(0.002));
  CHECK(in_use.iteration_overhead_s == Approx(fitted.iteration_overhead_s).epsilon(0.01));
}

// A fit from a single start that is clamped at the bounds ends at 0.186.
TEST_CASE("with all four constants free the fit finds the deeper of two minima") {
  double squares = 0;
  for (const double error : relative_errors(runs(), fit_calibration(runs(), {}, threads), threads))
    squares += error * error;
  CHECK(squares < 0.1765);
}

TEST_CASE("a network excluded from the fit is simulated within 8 % on average") {
  for (const HeldOutErrors& left_out :
       cross_validation_errors(runs(), directly_measured_constants(), threads)) {
    CAPTURE(left_out.network);
    CHECK(mean_absolute(left_out.errors) <= 0.08);
  }
}

TEST_CASE("with constants calibrated on half of the runs the other half is within 7 % on average") {
  for (const SplitFit& half : fit_to_halves(runs(), threads)) {
    CHECK(half.others.size() == 25);
    CHECK(mean_absolute(half.fitted) <= 0.06);
    CHECK(mean_absolute(half.others) <= 0.07);
    CHECK(half.inside >= 23);  // of 25, for 95 % intervals
  }
}

namespace {

constexpr const char* data = DTFM_SHARED_DATA;

bool has_data() {
  if (std::filesystem::exists(std::string(data) + "/measured")) return true;
  WARN("skipped: no measured runs in " << data);
  return false;
}

}  // namespace

TEST_CASE("calibrated with half of the runs on a network, those of 64 GPUs are within 4.5 %, at worst 15 %") {
  if (!has_data()) return;
  const std::vector<MeasuredRun> all = read_network_runs(data);
  REQUIRE(all.size() == 90);
  REQUIRE(network_names(all).size() == 5);
  std::vector<double> errors;
  std::size_t inside = 0;
  for (const std::string& network : network_names(all)) {
    const SplitFit half = fit_to_every(2, 0, runs_on(network, all), {}, threads);
    errors.insert(errors.end(), half.others.begin(), half.others.end());
    inside += half.inside;
  }
  CHECK(errors.size() == 45);
  CHECK(mean_absolute(errors) <= 0.045);
  CHECK(std::ranges::all_of(errors, [](double error) { return std::abs(error) <= 0.15; }));
  CHECK(inside >= 41);  // for 95 % intervals
}

TEST_CASE("without calibration the intervals of plans across sites contain the runs of 64 GPUs") {
  if (!has_data()) return;
  int runs = 0, inside = 0;
  for (const MeasuredRun& run : read_network_runs(data)) {
    if (run.work->topology->sites.size() == 1) continue;
    const Problem problem = run.work->problem_with(Calibration());
    const double seconds = undisturbed_seconds(problem, run.work->plan);
    const PredictionInterval interval = time_interval(problem, run.work->plan, std::nullopt, seconds);
    ++runs;
    inside += interval.low_s <= run.seconds && run.seconds <= interval.high_s ? 1 : 0;
  }
  CHECK(runs == 54);
  CHECK(inside >= 0.9 * runs);
}
