// The result of a calibration as text and as a file.
#pragma once

#include <string>
#include <vector>

#include "core/cluster/topology.hpp"
#include "simulator/calibration/calibrate.hpp"

namespace dtfm::cli {

struct CalibrateSummary {
  const Topology& topology;
  const std::vector<sim::MeasuredRun>& runs;
  const sim::CalibrationFit& fit;
  const Calibration& prior;            // its mean: the constants of --job or the topology, or neutral
  const std::vector<double>& prior_s;  // simulated seconds of each run with `prior`
};

/// Tables of the constants and of the runs, and the errors of the simulated times.
std::string format_summary(const CalibrateSummary& summary);

/// JSON of schema dtfm-calibration/1. The same arguments give the same bytes.
std::string calibration_file_json(const CalibrateSummary& summary);

}  // namespace dtfm::cli
