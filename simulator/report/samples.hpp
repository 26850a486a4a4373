// Summarizes many runs of a random scenario.
#pragma once

#include <vector>

#include "simulator/report/sim_report.hpp"

namespace dtfm::sim {

struct SampleSummary {
  int runs = 0;                   // number of runs that completed at least one iteration
  Distribution iteration_time_s;  // of the mean iteration times of the runs
  Distribution tokens_per_s;      // of the runs
  std::vector<double> mean_s;     // mean iteration time of each run, in order
};

/// Runs that did not complete any iteration are left out.
SampleSummary sample_summary(const std::vector<SimReport>& runs);

}  // namespace dtfm::sim
