// The constants of the model from measured iteration times.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "planner/core/plan.hpp"
#include "simulator/problem.hpp"

namespace dtfm {

struct MeasuredRun {
  std::string name, network;
  SimProblem problem;  // its constants mean nothing
  Plan plan;
  double seconds = 0;  // an iteration
};

/// Seconds of an iteration of `run` with `constants`.
double simulated_seconds(const MeasuredRun& run, const SimConstants& constants);

/// Simulated ÷ measured − 1, of each run; on `threads` threads.
std::vector<double> relative_errors(std::span<const MeasuredRun> runs, const SimConstants& constants,
                                    int threads);

/// The constants with the least sum of squared relative errors: Levenberg and Marquardt's method from
/// `start`, with derivatives by differences, shares kept in (0, 1] and times ≥ 0. Throws Error for fewer runs
/// than constants.
SimConstants fitted_constants(std::span<const MeasuredRun> runs, const SimConstants& start, int threads);

}  // namespace dtfm
