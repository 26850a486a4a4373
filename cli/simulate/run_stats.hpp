// Resources that the simulation itself used, which --stats prints.
#pragma once

#include <string>

namespace dtfm::cli {

/// CPU time of this process so far.
double cpu_seconds();

struct RunStats {
  long long tasks = 0, flows = 0, events = 0;  // sums over all runs
  double read_cpu_s = 0, run_cpu_s = 0;
};

/// Returns one line of JSON, with the peak memory of this process so far.
std::string stats_json(const RunStats& stats);

}  // namespace dtfm::cli
