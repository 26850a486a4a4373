// Benchmarks estimates of iteration times: of a new plan, and after swapping two devices.
#include <benchmark/benchmark.h>

#include "core/base/rng.hpp"
#include "planner/cost/iteration_time/iteration_time.hpp"
#include "core/io/readers/calibration_reader.hpp"
#include "tests/support/published_job.hpp"
#include "tests/support/small_problems.hpp"

namespace dtfm {
using namespace cost;
using namespace io;
namespace {

constexpr int stages = 8, per_site = 16;

/// Returns the default job on sites of 16 devices. If `shared`, every device has an uplink and a downlink.
Problem problem_of(int devices, bool shared) {
  Problem problem{flat_topology(std::vector<int>(at(devices / per_site), per_site), link_of(5e-3, 250e6),
                                link_of(70e-3, 100e6)),
                  published_job(), shipped_calibration("v100").constants};
  problem.topology.edit().gpus[0].name = "V100-16GB";
  for (Device& device : problem.topology.edit().devices)
    if (shared) device.uplink = device.downlink = BitsPerSecond(2e9);
  return problem;
}

Plan plan_of(const Problem& problem, Rng& rng) {
  const int devices = problem.topology->size();
  std::vector<int> order(at(devices));
  for (int device = 0; device < devices; ++device) order[at(device)] = device;
  rng.shuffle(std::span<int>(order));
  Placement placement(stages, devices / stages);
  for (int i = 0; i < devices; ++i) placement.at(i % stages, i / stages) = order[at(i)];
  return plan_from_placement(placement, problem.job);
}

/// Arguments: number of devices; whether they share links; gpipe or 1f1b.
Problem problem_of(const benchmark::State& state) {
  Problem problem = problem_of(static_cast<int>(state.range(0)), state.range(1) != 0);
  problem.job.execution.schedule = state.range(2) == 0 ? Schedule::gpipe : Schedule::one_f_one_b;
  return problem;
}

void estimate_plan(benchmark::State& state) {
  const Problem problem = problem_of(state);
  const IterationModel model(problem);
  Rng rng = Rng::for_task(0, 0);
  const Plan plan = plan_of(problem, rng);
  for (auto _ : state) benchmark::DoNotOptimize(estimate_iteration(model, plan).iteration_s);
}

void swap_two_devices(benchmark::State& state) {
  const Problem problem = problem_of(state);
  const IterationModel model(problem);
  Rng rng = Rng::for_task(0, 0);
  IterationEstimator estimator(model);
  Plan plan = plan_of(problem, rng);
  estimator.estimate(plan);
  const auto pipelines = static_cast<std::uint32_t>(plan.pipelines.size());
  for (auto _ : state) {
    const int a = static_cast<int>(rng.below(pipelines)), b = static_cast<int>(rng.below(pipelines)),
              stage = static_cast<int>(rng.below(stages)), other = static_cast<int>(rng.below(stages));
    std::swap(plan.pipelines[at(a)].stages[at(stage)].devices,
              plan.pipelines[at(b)].stages[at(other)].devices);
    benchmark::DoNotOptimize(estimator.estimate(plan).iteration_s);
  }
}

const std::vector<std::vector<std::int64_t>> settings = {{64, 256, 1024}, {0, 1}, {0, 1}};
BENCHMARK(estimate_plan)
    ->ArgsProduct(settings)
    ->ArgNames({"devices", "shared", "1f1b"})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(swap_two_devices)
    ->ArgsProduct(settings)
    ->ArgNames({"devices", "shared", "1f1b"})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace dtfm
