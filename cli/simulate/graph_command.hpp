// Runs dtfm-sim --graph.
#pragma once

#include <string>

namespace dtfm::cli {

struct GraphOptions {
  std::string graph;   // file to read
  std::string tasks;   // CSV file to write; empty: none
  std::string output;  // JSON file to write; empty: none
  bool stats = false, quiet = false;
};

/// Returns the exit code. Throws Error.
int run_graph_command(const GraphOptions& options);

}  // namespace dtfm::cli
