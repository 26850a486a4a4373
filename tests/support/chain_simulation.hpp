// Runs of pipelines whose event times are derived by hand, and what tests read from their reports.
#pragma once

#include <cmath>
#include <vector>

#include "simulator/simulate.hpp"
#include "tests/support/small_problems.hpp"

namespace dtfm {
using namespace sim;

using IterationTimes = std::vector<double>;

/// Pipelines of `stages` stages with one layer each, which takes 1 s forward and 2 s backward, and messages
/// of `output` bytes over 1 MB/s. Gradient synchronization takes no time.
struct ChainRun {
  Problem problem;
  Plan plan;
  Scenario scenario;

  ChainRun(int stages, int replicas, int micro_batches, double output = 0)
      : problem{flat_topology({stages * replicas}, link_of(0, 1e6), link_of(0, 1e6)),
                chain_job(stages, 1e6, output),
                {}} {
    problem.job.execution.compression.gradients = 0;
    plan = plan_of(problem.job, stages, replicas, micro_batches);
  }

  SimReport run(int iterations) const {
    SimOptions options;
    options.iterations = iterations;
    return simulate(problem, plan, scenario, options);
  }
};

/// Returns start and end of every iteration in whole microseconds.
inline IterationTimes iteration_times(const SimReport& report) {
  IterationTimes result;
  for (const IterationReport& it : report.iterations)
    for (const double date : {it.start_s, it.end_s}) result.push_back(std::round(date * 1e6) / 1e6);
  return result;
}

/// Returns the device-seconds of all computations.
inline double total_compute_s(const SimReport& report) {
  double sum = 0;
  for (const DeviceReport& device : report.devices) sum += device.compute_s;
  return sum;
}

}  // namespace dtfm
