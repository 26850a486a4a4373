// What dtfm-sim does.
#pragma once

#include <string>

namespace dtfm {

struct SimOptions {
  std::string graph;   // file to read
  std::string tasks;   // CSV file to write; "-": stdout; empty: none
  std::string output;  // JSON file to write; empty: none
  bool stats = false, quiet = false;
};

/// The exit code. Throws Error.
int run_sim_command(const SimOptions& options);

}  // namespace dtfm
