#include "simulator/calibration/prediction.hpp"

#include <algorithm>
#include <cmath>

#include "core/collectives/collective.hpp"
#include "simulator/calibration/student_t.hpp"
#include "simulator/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

const Calibration constants{1, 0.01, 0.9, 2, 0, 1};

}  // namespace

// For seconds = scale · 10 + overhead, the derivatives of the logarithm are 10 / 12 and 1 / 12.
TEST_CASE("the variance of a prediction combines those of the constants and of the runs") {
  CalibrationUncertainty spread{0.03, 8, {}};
  const double a = 0.004, b = 0.05, ab = -0.00001;
  spread.covariance[0][0] = a * a;
  spread.covariance[3][3] = b * b;
  spread.covariance[0][3] = spread.covariance[3][0] = ab;
  const auto seconds = [](const Calibration& it) { return it.compute_scale * 10 + it.iteration_overhead_s; };
  const double variance = (100 * a * a + b * b + 2 * 10 * ab) / (12.0 * 12) + 0.03 * 0.03;
  const double expected = std::exp(student_critical_value(0.05, 8) * std::sqrt(variance));
  CHECK(prediction_factor(constants, spread, seconds) == Approx(expected).epsilon(1e-4));
}

TEST_CASE("derivatives are taken within the valid range of the constants") {
  CalibrationUncertainty spread{0.03, 8, {}};
  for (std::size_t i = 0; i < CalibrationUncertainty::size; ++i) spread.covariance[i][i] = 4;
  int calls = 0;
  const double factor = prediction_factor(constants, spread, [&](const Calibration& it) {
    ++calls;
    CHECK(it.compute_scale > 0);
    CHECK((it.network_efficiency > 0 && it.network_efficiency <= 1));
    CHECK((it.sync_efficiency > 0 && it.sync_efficiency <= 1));
    CHECK(it.message_overhead_s >= 0);
    return 1 / it.sync_efficiency;
  });
  CHECK(calls == 1 + CalibrationUncertainty::size);
  // From 1 to 1/2 the logarithm grows by log 2 over a step of 1/2; the standard deviation is 2.
  CHECK(std::log(factor) ==
        Approx(student_critical_value(0.05, 8) * std::hypot(2 * std::log(2.0) / 0.5, 0.03)).epsilon(1e-6));
}

TEST_CASE("an interval is finite however uncertain the constants are") {
  CHECK(prediction_factor(constants, CalibrationUncertainty{10, 1, {}},
                          [](const Calibration&) { return 3.0; }) == Approx(std::exp(50)));
}

TEST_CASE("exact constants leave only the spread of the runs and zero time has no error") {
  const CalibrationUncertainty spread{0.05, 10, {}};
  CHECK(prediction_factor(constants, spread, [](const Calibration&) { return 3.0; }) ==
        Approx(std::exp(student_critical_value(0.05, 10) * 0.05)));
  CHECK(prediction_factor(constants, spread, [](const Calibration&) { return 0.0; }) == 1);
}

// One device, 3 s per layer. Constants that a few runs leave uncertain make the interval as wide as needed to
// contain that of neutral constants, and no wider; precise constants decide alone.
TEST_CASE("an interval is no wider than with neutral constants, apart from what the calibration moves it") {
  Problem problem{flat_topology({1}, link_of(0, 1e6), link_of(0, 1e6)), chain_job(2, 0, 0), {}};
  problem.constants.compute_scale = 1.25;
  const Plan plan = plan_of(problem.job, 1, 1, 1);
  CalibrationUncertainty spread{0.03, 4, {}};
  spread.covariance[0][0] = 9;
  const PublishedErrors& errors = published_errors(problem, plan);
  const PredictionInterval wide = time_interval(problem, plan, spread, 7.5);
  CHECK(wide.low_s == Approx(6 / prediction_factor(errors)));
  CHECK(wide.high_s == Approx(7.5 * 1.25 * prediction_factor(errors)));
  CHECK(wide.source == errors.source);
  spread.covariance[0][0] = 0.0001;
  const PredictionInterval narrow = time_interval(problem, plan, spread, 7.5);
  CHECK(narrow.source == "calibration");
  CHECK(narrow.high_s < wide.high_s);
}

// 3 s forward and backward, whose messages overlap nothing, and all-reduces of 8 MB over links of 100 ms.
TEST_CASE("beyond the latencies of all measured runs an interval reaches to other collectives") {
  Problem problem{flat_topology({1, 1, 1, 1}, link_of(0, 1e9), link_of(0.1, 1e7)), chain_job(1, 2e6, 0), {}};
  Plan plan = plan_of(problem.job, 1, 4, 4);
  CHECK(longest_site_latency_s(problem.topology, plan) == 0.1);
  const auto seconds_with = [&](GradientSync sync) {
    Plan other = plan;
    other.execution.gradient_sync = sync;
    return undisturbed_seconds(problem, other);
  };
  double low = 1e9, high = 0;
  for (const GradientSyncTraits& sync : gradient_sync_table()) {
    if (!sync.messages || sync.has_instances) continue;
    low = std::min(low, seconds_with(sync.kind));
    high = std::max(high, seconds_with(sync.kind));
  }
  REQUIRE(high > 1.05 * low);
  const double factor = prediction_factor(published_errors(problem, plan));
  for (const GradientSync sync : {GradientSync::ring, GradientSync::central_ps}) {
    plan.execution.gradient_sync = sync;
    const PredictionInterval wide = time_interval(problem, plan, {}, seconds_with(sync));
    CHECK(wide.low_s == Approx(low / factor));
    CHECK(wide.high_s == Approx(high * factor));
    CHECK(wide.source == "published runs, several sites, widened by other collectives beyond 50 ms");
  }
  // Calibrated with runs over such latencies, the constants decide alone.
  CalibrationUncertainty spread{0.03, 4, {}};
  CHECK(time_interval(problem, plan, spread, 5).source ==
        "calibration, widened by other collectives beyond 50 ms");
  spread.longest_latency_s = 0.1;
  const PredictionInterval known = time_interval(problem, plan, spread, 5);
  CHECK(known.source == "calibration");
  CHECK(known.high_s == Approx(5 * std::exp(0.03 * student_critical_value(0.05, 4))));
}

TEST_CASE("an interval is not widened without gradient synchronization between sites") {
  Problem problem{flat_topology({2, 1}, link_of(0, 1e9), link_of(0.1, 1e7)), chain_job(2, 2e6, 0), {}};
  CHECK(longest_site_latency_s(problem.topology, plan_of(problem.job, 1, 2, 2)) == 0);
  const Plan pipeline = plan_of(problem.job, 3, 1, 1);
  CHECK(longest_site_latency_s(problem.topology, pipeline) == 0.1);
  const CollectiveSpread none = collective_spread(pipeline, [](const Plan&) { return 1.0; });
  CHECK(none.low == 1);
  CHECK(none.high == 1);
}

// zero2 needs a reduce-scatter, so only the sharded parameter server and the ring can run.
TEST_CASE("only collectives that can run the plan widen its interval") {
  Problem problem{flat_topology({1, 1}, link_of(0, 1e9), link_of(0.1, 1e7)), chain_job(1, 2e6, 0), {}};
  Plan plan = plan_of(problem.job, 1, 2, 2);
  plan.execution.optimizer_sharding = OptimizerSharding::zero2;
  plan.execution.gradient_sync = GradientSync::ring;
  std::vector<GradientSync> simulated;
  const CollectiveSpread spread = collective_spread(plan, [&](const Plan& other) {
    simulated.push_back(other.execution.gradient_sync);
    return other.execution.gradient_sync == GradientSync::ring ? 2.0 : 1.0;
  });
  CHECK(simulated == std::vector{GradientSync::ring, GradientSync::sharded_ps});
  CHECK(spread.low == 0.5);
  CHECK(spread.high == 1);
}

namespace {

/// Source of the errors of a plan with one device per entry, each on a host of its own unless `hosts` is
/// smaller; −1: a device without a GPU.
std::string_view source_of(const std::vector<int>& gpus, int hosts, bool is_profiled = false) {
  Topology topology;
  topology.gpus.resize(3);
  topology.gpus[0].name = "H";
  topology.gpus[0].architecture = Architecture::hopper;
  topology.gpus[1].name = "A";
  topology.gpus[1].architecture = Architecture::ampere;
  topology.gpus[2].name = "B";
  topology.gpus[2].architecture = Architecture::blackwell;
  Plan plan;
  plan.pipelines.resize(1);
  Job job;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    Device device;
    device.gpu = gpus[i];
    device.host = static_cast<int>(i) % hosts;
    topology.devices.push_back(device);
    Stage stage;
    stage.devices = {static_cast<int>(i)};
    plan.pipelines[0].stages.push_back(stage);
  }
  if (is_profiled) {
    LayerProfile profile;
    profile.gpu = "H";
    job.profiles = {profile};
  }
  return published_errors({topology, job, {}, {}}, plan).source;
}

}  // namespace

TEST_CASE("default intervals depend on the generation and on the number of hosts") {
  const std::string kind = "published runs, estimated layer times, ";
  CHECK(source_of({0}, 1) == kind + "Hopper, one host");
  CHECK(source_of(std::vector<int>(8, 0), 8) == kind + "Hopper, 2 to 8 hosts");
  CHECK(source_of(std::vector<int>(9, 0), 9) == kind + "Hopper, more hosts");
  CHECK(source_of({1, 1}, 2) == kind + "Ampere, several hosts");
  CHECK(source_of({2, 2}, 1) == kind + "Blackwell, one host");
  CHECK(source_of({2, 2}, 2) == kind + "other generations, several hosts");
  CHECK(source_of({-1}, 1) == kind + "other generations, one host");
  // Of several generations, the one with the largest error.
  CHECK(source_of({0, 1}, 1) == kind + "Ampere, one host");
  CHECK(source_of({0, -1}, 1) == kind + "other generations, one host");
  CHECK(source_of({0, 0}, 1, true) == "published runs, profiled layer times");
  CHECK(source_of({0, 1}, 1, true) == kind + "Ampere, one host");
}
