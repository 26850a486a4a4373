// What the user asked dtfm-sim for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/common/output_format.hpp"
#include "cli/common/style.hpp"

namespace dtfm::cli {

struct SimulateOptions {
  std::string topology, plan;              // files
  std::optional<std::string> scheme;       // by name, in place of a plan
  std::optional<int> sync_every;           // of schemes that exchange seldom
  double skip = 0.25;                      // share of the stages, of schemes that leave some out
  double verify = 0, faulty_share = 0;     // shares of a swarm's calls and peers
  std::optional<std::string> graph;        // file: a task graph to replay instead of a plan
  std::optional<std::string> ranks;        // file: the devices of the ranks of a Megatron plan
  std::optional<std::string> job;          // file; nothing: the job in the plan
  std::optional<std::string> scenario;     // file; nothing: nothing happens
  std::optional<std::string> calibration;  // file; nothing: the constants that come with the program
  int iterations = 3;
  std::uint64_t seed = 0;
  std::optional<int> samples;
  int threads = 1;
  std::optional<std::string> output, trace, tasks, report;  // files
  OutputFormat format = OutputFormat::text;
  ColorChoice color = ColorChoice::automatic;
  bool stats = false, quiet = false;
};

/// Replays the plan as the options ask; the exit code. Throws Error for bad input.
int run_simulate_command(const SimulateOptions& options);

}  // namespace dtfm::cli
