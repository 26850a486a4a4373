// The simulator against iterations of other trainers (docs/validation.md).
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <string_view>
#include <utility>

#include "core/io/readers/calibration_reader.hpp"
#include "planner/cost/iteration_time/iteration_time.hpp"
#include "simulator/calibration/prediction.hpp"
#include "simulator/calibration/student_t.hpp"
#include "tests/support/catch.hpp"
#include "tests/validation/cluster_runs.hpp"
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

TEST_CASE("iterations of A100s on one host are simulated within 8.5 % on average with neutral constants") {
  if (!has_data()) return;
  const std::vector<MeasuredRun> runs = read_vtrain_runs(data + "/measured/vtrain-one-host.csv");
  CHECK(runs.size() == 120);
  CHECK(mean_absolute(relative_errors(runs, Calibration(), 2)) <= 0.085);
}

// docs/validation.md has the numbers.
TEST_CASE("iterations on clusters without a profile are estimated within the errors of docs/validation.md") {
  if (!has_data()) return;
  struct Set {
    const char* name;
    std::vector<MeasuredRun> runs;
    std::size_t count;
    double mean, bias, other_half;  // upper bounds on absolute values
  };
  const std::vector<Set> sets = {
      {"vTrain, one host", read_vtrain_runs(data + "/measured/vtrain-one-host.csv"), 120, 0.084, 0.025,
       0.087},
      {"vTrain, many hosts", read_vtrain_runs(data + "/measured/vtrain-many-hosts.csv"), 36, 0.075, 0.06,
       0.095},
      {"nanotron", timed_runs(read_nanotron_runs(data)), 48, 0.07, 0.03, 0.06},
      {"SimuMax", timed_runs(read_simumax_runs(data)), 9, 0.075, 0.05, 0.095},
      {"llm-foundry", timed_runs(read_fsdp_runs(data)), 42, 0.065, 0.035, 0.065}};
  for (const Set& set : sets) {
    CAPTURE(set.name);
    CHECK(set.runs.size() == set.count);
    const std::vector<double> errors = estimate_errors(set.runs);
    CHECK(mean_absolute(errors) <= set.mean);
    CHECK(std::abs(std::accumulate(errors.begin(), errors.end(), 0.0)) <=
          set.bias * static_cast<double>(errors.size()));
    CHECK(mean_absolute(estimate_errors(half_of(set.runs, 1))) <= set.other_half);
  }
}

TEST_CASE("the latency of nanotron's network fits half of its runs best") {
  if (!has_data()) return;
  const auto squares = [](int latency_us) {
    double sum = 0;
    for (const double error : estimate_errors(half_of(timed_runs(read_nanotron_runs(data, latency_us)), 0)))
      sum += std::pow(std::log1p(error), 2);
    return sum;
  };
  for (int latency_us = 5; latency_us <= 100; latency_us += 5) {
    CAPTURE(latency_us);
    CHECK(squares(nanotron_latency_us) <= squares(latency_us));
  }
}

TEST_CASE("of nanotron's runs of a model on the same hosts, the fastest is estimated to be the fastest") {
  if (!has_data()) return;
  const std::vector<RunChoice> choices = estimated_choices(timed_runs(read_nanotron_runs(data)));
  CHECK(choices.size() == 12);
  for (const RunChoice& it : choices) {
    CAPTURE(it.name, it.runs);
    CHECK(it.excess <= 0.03);
  }
}

// docs/validation.md has the numbers. Only `memory_error` is derived from them.
TEST_CASE("memory of clusters is predicted within the errors of docs/validation.md") {
  if (!has_data()) return;
  const std::vector<ClusterRun> nanotron = read_nanotron_runs(data), simumax = read_simumax_runs(data);
  const std::vector<double> reserved = memory_errors(nanotron).peak;
  REQUIRE(reserved.size() == 56);
  CHECK(mean_absolute(reserved) <= 0.045);
  double squares = 0;
  for (const double error : reserved) squares += std::pow(std::log(1 + error), 2);
  CHECK(cost::memory_error ==
        Approx(std::expm1(student_critical_value(0.05, 56) * std::sqrt(squares / 56))).margin(0.001));
  CHECK(memory_errors(simumax).peak.size() == 9);
  CHECK(mean_absolute(memory_errors(simumax).peak) <= 0.03);
  const RejectionCounts counts = count_rejections(nanotron), fsdp = count_rejections(read_fsdp_runs(data));
  CHECK(counts.succeeded == 56);
  CHECK(counts.falsely_rejected == 0);
  CHECK(counts.out_of_memory == 9);
  CHECK(counts.rejected == 9);
  CHECK(fsdp.succeeded == 42);
  CHECK(fsdp.falsely_rejected == 0);
}

TEST_CASE("estimates of clusters are those of the simulator") {
  if (!has_data()) return;
  std::vector<MeasuredRun> runs = read_unprofiled_runs(data);
  std::erase_if(runs, [](const MeasuredRun& run) { return run.work->topology->size() > 64; });
  CHECK(runs.size() > 180);
  const std::vector<double> estimated = estimate_errors(runs),
                            simulated = relative_errors(runs, Calibration(), 2);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    CAPTURE(runs[i].name);
    CHECK(1 + estimated[i] == Approx(1 + simulated[i]).epsilon(0.005));
  }
}

TEST_CASE("iterations of GH200s are simulated within 6.5 % on average with neutral constants") {
  if (!has_data()) return;
  const std::vector<MeasuredRun> runs = read_gh200_runs(data);
  CHECK(runs.size() == 15);
  CHECK(mean_absolute(relative_errors(runs, Calibration(), 2)) <= 0.065);
}

TEST_CASE("the peak memory of GH200s is predicted within 5 % on average with default constants") {
  if (!has_data()) return;
  const std::vector<MeasuredRun> runs = read_gh200_runs(data);
  const std::vector<double> predicted =
      predicted_peak_memory(runs, io::shipped_calibration("neutral").constants);
  std::vector<double> errors;
  for (std::size_t i = 0; i < runs.size(); ++i)
    errors.push_back(predicted[i] / runs[i].peak_memory_bytes - 1);
  CHECK(mean_absolute(errors) <= 0.05);
}

namespace {

double log_error(const MeasuredRun& run, const Calibration& constants) {
  return std::log(simulate_seconds({&run, 1}, constants, 1).front() / run.seconds);
}

std::vector<double> log_errors(const std::vector<MeasuredRun>& runs) {
  std::vector<double> errors;
  for (const MeasuredRun& run : runs) errors.push_back(log_error(run, Calibration()));
  return errors;
}

/// The root mean square of these logarithms must be that of the table, and the interval must hold 90 % of
/// them.
void check_published_errors(const PublishedErrors& kind, const std::vector<double>& errors) {
  CAPTURE(kind.source);
  CHECK(kind.runs == static_cast<int>(errors.size()));
  double squares = 0;
  int inside = 0;
  for (const double error : errors) {
    squares += error * error;
    if (std::abs(error) <= std::log(prediction_factor(kind))) ++inside;
  }
  CHECK(kind.residual == Approx(std::sqrt(squares / kind.runs)).margin(0.0005));
  CHECK(inside >= 0.9 * kind.runs);
}

std::string_view kind_of(const MeasuredRun& run) {
  return published_errors(run.work->problem_with(Calibration()), run.work->plan).source;
}

/// The same runs on GPUs of a generation that is not known.
std::vector<MeasuredRun> on_unknown_generation(std::vector<MeasuredRun> runs) {
  for (MeasuredRun& run : runs) {
    Workload work = *run.work;
    Topology topology = *work.topology;
    for (Gpu& gpu : topology.gpus) gpu.architecture = Architecture::other;
    work.topology = std::make_shared<const Topology>(std::move(topology));
    run.work = std::make_shared<const Workload>(std::move(work));
  }
  return runs;
}

}  // namespace

TEST_CASE("the errors behind default intervals are those of the published runs") {
  if (!has_data()) return;
  const auto table = published_errors_table();
  REQUIRE(table.size() == 10);
  check_published_errors(table[0],
                         log_errors(read_measured_runs(std::string(DTFM_SOURCE_DIR) + "/tests/validation")));
  check_published_errors(table[1], log_errors(read_gh200_runs(data)));
  std::vector<MeasuredRun> runs = read_unprofiled_runs(data);
  for (MeasuredRun& run : on_unknown_generation(runs)) runs.push_back(std::move(run));
  std::map<std::string_view, std::vector<double>> errors;  // by kind
  const std::vector<double> relative = estimate_errors(runs);
  for (std::size_t i = 0; i < runs.size(); ++i) errors[kind_of(runs[i])].push_back(std::log(1 + relative[i]));
  CHECK(errors.size() == table.size() - 2);
  for (std::size_t i = 2; i < table.size(); ++i) check_published_errors(table[i], errors[table[i].source]);
}

TEST_CASE("the interval of the V100 calibration holds 90 % of the iterations that it was fitted to") {
  const FittedCalibration v100 = io::shipped_calibration("v100");
  REQUIRE(v100.spread.has_value());
  const std::vector<MeasuredRun> runs =
      read_measured_runs(std::string(DTFM_SOURCE_DIR) + "/tests/validation");
  double squares = 0;
  int inside = 0;
  for (const MeasuredRun& run : runs) {
    const double error = log_error(run, v100.constants);
    squares += error * error;
    const auto seconds = [&](const Calibration& it) { return simulate_seconds({&run, 1}, it, 1).front(); };
    if (std::abs(error) <= std::log(prediction_factor(v100.constants, *v100.spread, seconds))) ++inside;
  }
  CHECK(v100.spread->degrees_of_freedom == 50 - 3);
  CHECK(v100.spread->residual == Approx(std::sqrt(squares / (50 - 3))).margin(0.0005));
  CHECK(inside >= 45);
}

TEST_CASE("a calibration with a third of the runs on one host is within 8 % on the others") {
  if (!has_data()) return;
  std::vector<MeasuredRun> fitted, others;
  const std::vector<MeasuredRun> runs = read_vtrain_runs(data + "/measured/vtrain-one-host.csv");
  for (std::size_t i = 0; i < runs.size(); ++i) (i % 3 == 0 ? fitted : others).push_back(runs[i]);
  const CalibrationFit fit = calibrate(fitted, {Calibration(), 2, {}});
  CHECK(mean_absolute(relative_errors(others, fit.constants, 2)) <= 0.08);
}
