// Measured iterations, with the inputs to simulate them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/plan/problem.hpp"

namespace dtfm::sim {

/// Inputs of a simulation. The topology is shared because it may be large.
struct Workload {
  std::shared_ptr<const Topology> topology;
  Job job;
  Plan plan;
  Roofline roofline = {};
  /// Settings that neither the run nor its plan decides. They have their first value.
  SettingSet undecided = {};

  Problem problem_with(const Calibration& constants) const { return {*topology, job, constants, roofline}; }
};

struct MeasuredRun {
  std::string name, network;
  std::shared_ptr<const Workload> work;  // shared by runs of the same workload, which is simulated once
  double seconds = 0;                    // measured, of one iteration
  std::size_t line = 0;                  // in the file it was read from; 0: none
  double peak_memory_bytes = 0;          // measured, of the device that needs most; 0: unknown
};

/// Simulated seconds of an iteration of each run with `constants`, computed on `threads` threads.
std::vector<double> simulate_seconds(std::span<const MeasuredRun> runs, const Calibration& constants,
                                     int threads);

/// Predicted peak memory of the device that needs most, of each run.
std::vector<double> predicted_peak_memory(std::span<const MeasuredRun> runs, const Calibration& constants);

}  // namespace dtfm::sim
