// Many runs of a random scenario in a few numbers.
#pragma once

#include <vector>

#include "simulator/report/sim_report.hpp"

namespace dtfm::sim {

struct SampleSummary {
  int runs = 0;                   // that came to the end of an iteration at least
  Distribution iteration_time_s;  // of the mean of each run
  Distribution tokens_per_s;      // of each run
  std::vector<double> mean_s;     // of each run, in order
};

/// Runs in which no iteration was completed say nothing of times and are left out.
SampleSummary sample_summary(const std::vector<SimReport>& runs);

}  // namespace dtfm::sim
