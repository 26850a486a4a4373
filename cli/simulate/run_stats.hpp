// What a simulation cost the machine that it ran on: the line that --stats prints.
#pragma once

#include <string>

namespace dtfm::cli {

/// Of this process so far.
double cpu_seconds();

struct RunStats {
  long long tasks = 0, flows = 0, events = 0;  // of all runs
  double read_cpu_s = 0, run_cpu_s = 0;
};

/// One line of JSON, with the peak of memory of this process so far.
std::string stats_json(const RunStats& stats);

}  // namespace dtfm::cli
