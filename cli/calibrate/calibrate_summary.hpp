// A calibration in words, and as a file.
#pragma once

#include <string>
#include <vector>

#include "planner/core/topology.hpp"
#include "simulator/calibration/calibrate.hpp"

namespace dtfm::cli {

struct CalibrateSummary {
  const Topology& topology;
  const std::vector<sim::MeasuredRun>& runs;
  const sim::CalibrationFit& fit;
  const Calibration& before;            // the constants that come with the program
  const std::vector<double>& before_s;  // seconds of the runs with these
};

/// A table of the constants, one of the runs, and how far the simulated times are off.
std::string format_summary(const CalibrateSummary& summary);

/// A file of schema dtfm-calibration/1. Same arguments, same bytes.
std::string calibration_file_json(const CalibrateSummary& summary);

}  // namespace dtfm::cli
