#include "simulator/report/samples.hpp"

#include <vector>

#include "simulator/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

std::vector<double> ends(const std::vector<SimReport>& samples) {
  std::vector<double> result;
  for (const SimReport& sample : samples)
    for (const IterationReport& it : sample.iterations) result.push_back(it.end_s);
  return result;
}

}  // namespace

TEST_CASE("samples do not depend on the number of threads and differ from each other") {
  const Problem problem{
      flat_topology({4}, link_of(0.01, 1e6), link_of(0.01, 1e6)), chain_job(2, 1e5, 1e5), {}};
  const Plan plan = plan_of(problem.job, 2, 2, 4);
  Scenario scenario;
  scenario.compute_jitter.cv = 0.2;
  scenario.events = {{5, 1, DeviceEvent::Kind::leave}, {40, 1, DeviceEvent::Kind::join}};
  SimOptions options;
  options.seed = 3;
  constexpr int count = 16;
  const std::vector<SimReport> samples = simulate_samples(problem, plan, scenario, options, count, 1);
  for (const int threads : {2, 3, 8})
    CHECK(ends(simulate_samples(problem, plan, scenario, options, count, threads)) == ends(samples));
  REQUIRE(samples.size() == count);
  for (int i = 1; i < count; ++i) CHECK(ends({samples[at(i)]}) != ends({samples[at(i - 1)]}));
  // Sample i is the run with seed 3 + i.
  options.seed = 5;
  CHECK(ends({simulate(problem, plan, scenario, options)}) == ends({samples[2]}));
  const SampleSummary summary = sample_summary(samples);
  CHECK(summary.runs == count);
  CHECK(summary.iteration_time_s.min < summary.iteration_time_s.p50);
  CHECK(summary.iteration_time_s.p50 < summary.iteration_time_s.p95);
}
