// Iterations that somebody has measured, beside what it takes to simulate them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "planner/core/plan.hpp"
#include "planner/core/problem.hpp"

namespace dtfm::sim {

/// What is simulated. The topology is shared, for it may be large.
struct Workload {
  std::shared_ptr<const Topology> topology;
  Job job;
  Plan plan;
  Roofline roofline = {};

  Problem problem_with(const Calibration& constants) const { return {*topology, job, constants, roofline}; }
};

struct MeasuredRun {
  std::string name, network;
  std::shared_ptr<const Workload> work;  // the same object for runs of the same, which is simulated once
  double seconds = 0;                    // an iteration
  std::size_t line = 0;                  // of the file that it is from; 0: of none
};

/// Seconds of an iteration of each run with `constants`, on `threads` threads.
std::vector<double> simulate_seconds(std::span<const MeasuredRun> runs, const Calibration& constants,
                                      int threads);

/// Simulated ÷ measured − 1, of each run.
std::vector<double> relative_errors(std::span<const MeasuredRun> runs, const Calibration& constants,
                                    int threads);

}  // namespace dtfm::sim
