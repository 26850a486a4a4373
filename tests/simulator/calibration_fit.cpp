#include <memory>

#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/fit_calibration.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

/// Returns runs of pipelines with different depths, lengths, outputs and rates, as if measured on machines
/// with the constants `truth`.
std::vector<MeasuredRun> runs_with(const Calibration& truth) {
  const auto topology =
      std::make_shared<Topology>(flat_topology({8}, link_of(0.01, 1e8), link_of(0.01, 1e8)));
  std::vector<MeasuredRun> runs;
  for (const int stages : {1, 2, 8})
    for (const double output : {1e6, 2e8, 1e9})
      for (const int micro_batches : {4, 12}) {
        const Job job = chain_job(8, 0, output);
        const Plan plan = plan_of(job, stages, 1, micro_batches);
        runs.push_back({"", "", std::make_shared<Workload>(Workload{topology, job, plan}), 1});
      }
  const std::vector<double> seconds = simulate_seconds(runs, truth, 1);
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i].seconds = seconds[i];
  return runs;
}

}  // namespace

TEST_CASE("constants are recovered from iterations that were simulated with them") {
  for (const Calibration& truth : {Calibration{0.4, 0.05, 0.9, 3}, Calibration{0.7, 0.2, 0.6, 0}}) {
    const Calibration fitted = fit_calibration(runs_with(truth), {}, 1);
    CHECK(fitted.compute_scale == Approx(truth.compute_scale).epsilon(0.01));
    CHECK(fitted.message_overhead_s == Approx(truth.message_overhead_s).epsilon(0.05));
    CHECK(fitted.network_efficiency == Approx(truth.network_efficiency).epsilon(0.01));
    CHECK(fitted.iteration_overhead_s == Approx(truth.iteration_overhead_s).epsilon(0.02).margin(0.02));
  }
}

TEST_CASE("known constants are not fitted") {
  const Calibration truth{0.4, 0.05, 0.9, 3};
  const Calibration fitted = fit_calibration(runs_with(truth), {{}, 0.05, 0.9, {}}, 1);
  CHECK(fitted.compute_scale == Approx(0.4).epsilon(1e-3));
  CHECK(fitted.message_overhead_s == 0.05);
  CHECK(fitted.network_efficiency == 0.9);
  CHECK(fitted.iteration_overhead_s == Approx(3).epsilon(1e-3));
}

// Runs with large messages were faster than the network permits, so the network efficiency is at its bound.
TEST_CASE("if a constant is at its bound the others still minimize the squares") {
  std::vector<MeasuredRun> runs = runs_with({0.4, 0.05, 1, 3});
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (i % 6 >= 4) runs[i].seconds *= 0.8;  // messages of 1 GB
  const auto squares = [&](const Calibration& constants) {
    double sum = 0;
    for (const double error : relative_errors(runs, constants, 1)) sum += error * error;
    return sum;
  };
  const Calibration best = fit_calibration(runs, {}, 1);
  CHECK(best.network_efficiency == 1);
  const double least = squares(best);
  for (const double compute : {0.97, 1.0, 1.03})
    for (const double message : {0.9, 1.0, 1.1})
      for (const double network : {0.97, 1.0})
        for (const double iteration : {0.95, 1.0, 1.05}) {
          const Calibration other{best.compute_scale * compute, best.message_overhead_s * message, network,
                                  best.iteration_overhead_s * iteration};
          CAPTURE(compute, message, network, iteration);
          CHECK(squares(other) >= least * (1 - 1e-3));
        }
}

TEST_CASE("errors are relative to the measured times") {
  const Calibration truth{0.4, 0, 0.9, 0};
  std::vector<MeasuredRun> runs = runs_with(truth);
  runs[1].seconds *= 2;
  const std::vector<double> errors = relative_errors(runs, truth, 2);
  CHECK(errors[0] == 0);
  CHECK(errors[1] == -0.5);
}

TEST_CASE("too few runs are rejected") {
  std::vector<MeasuredRun> runs = runs_with({});
  runs.resize(3);
  CHECK(error_message([&] { fit_calibration(runs, {}, 1); }) ==
        "fitting four constants requires at least four runs");
}
