// Iterations that somebody has measured, beside what it takes to simulate them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "planner/core/plan.hpp"
#include "planner/core/problem.hpp"

namespace dtfm {

/// Rows of one plan share the same objects, and are simulated once.
struct MeasuredRun {
  std::string name, network;
  std::shared_ptr<const Problem> problem;  // its constants mean nothing
  std::shared_ptr<const Plan> plan;
  double seconds = 0;  // an iteration
};

/// Seconds of an iteration of each run with `constants`, on `threads` threads.
std::vector<double> simulated_seconds(std::span<const MeasuredRun> runs, const Calibration& constants,
                                      int threads);

/// Simulated ÷ measured − 1, of each run.
std::vector<double> relative_errors(std::span<const MeasuredRun> runs, const Calibration& constants,
                                    int threads);

}  // namespace dtfm
