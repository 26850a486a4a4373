// The simulator against iterations of other trainers (docs/validation.md).
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "tests/support/catch.hpp"
#include "tests/validation/measured_runs.hpp"
#include "tests/validation/published_runs.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

const std::string data = DTFM_SHARED_DATA;

constexpr int gpus_per_host = 8;  // of the machines with A100s

bool has_data() {
  if (std::filesystem::exists(data + "/measured")) return true;
  WARN("skipped: no measured runs in " << data);
  return false;
}

}  // namespace

TEST_CASE("iterations of A100s on one host are simulated within 9 % on average with neutral constants") {
  if (!has_data()) return;
  const std::vector<MeasuredRun> runs = read_vtrain_runs(data + "/measured/vtrain-one-host.csv");
  CHECK(runs.size() == 120);
  CHECK(mean_absolute(relative_errors(runs, Calibration(), 2)) <= 0.09);
}

TEST_CASE("iterations that the roofline is not fitted to are simulated within 9 and 12 % on average") {
  if (!has_data()) return;
  const auto error = [](const std::string& file) {
    return mean_absolute(relative_errors(roofline_test_runs(data + "/measured/" + file), Calibration(), 2));
  };
  CHECK(roofline_test_runs(data + "/measured/vtrain-many-hosts.csv").size() == 16);
  CHECK(error("vtrain-one-host.csv") <= 0.091);
  CHECK(error("vtrain-many-hosts.csv") <= 0.12);
}

TEST_CASE("iterations on many hosts are simulated within 11 % on average with neutral constants") {
  if (!has_data()) return;
  const std::vector<MeasuredRun> runs = read_vtrain_runs(data + "/measured/vtrain-many-hosts.csv");
  CHECK(runs.size() == 36);
  const std::vector<double> errors = relative_errors(runs, Calibration(), 2);
  CHECK(mean_absolute(errors) <= 0.11);
  // The worst are no longer the tensor-parallel groups that span two hosts.
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (runs[i].work->plan.tensor > gpus_per_host) CHECK(std::abs(errors[i]) < 0.25);
}

TEST_CASE("iterations of GH200s are simulated within 9 % on average with neutral constants") {
  if (!has_data()) return;
  const std::vector<MeasuredRun> runs = read_gh200_runs(data);
  CHECK(runs.size() == 15);
  CHECK(mean_absolute(relative_errors(runs, Calibration(), 2)) <= 0.09);
}

TEST_CASE("a calibration with a third of the runs on one host is within 8 % on the others") {
  if (!has_data()) return;
  std::vector<MeasuredRun> fitted, others;
  const std::vector<MeasuredRun> runs = read_vtrain_runs(data + "/measured/vtrain-one-host.csv");
  for (std::size_t i = 0; i < runs.size(); ++i) (i % 3 == 0 ? fitted : others).push_back(runs[i]);
  const CalibrationFit fit = calibrate(fitted, {Calibration(), 2, {}});
  CHECK(mean_absolute(relative_errors(others, fit.constants, 2)) <= 0.08);
}
