// Options of dtfm-sim.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/common/output_format.hpp"
#include "cli/common/style.hpp"
#include "core/base/work.hpp"

namespace dtfm::cli {

struct SimulateOptions {
  std::string topology, plan;              // files
  std::optional<std::string> scheme;       // name of a scheme to simulate instead of a plan
  std::optional<int> sync_every;           // local-sgd, diloco: iterations between synchronizations
  double skip = 0.25;                      // skip-pipe: fraction of the stages
  double verify = 0, faulty_share = 0;     // swarm: fractions of the calls and of the peers
  std::optional<std::string> graph;        // file with a task graph to simulate instead of a plan
  std::optional<std::string> ranks;        // file with the device of each rank of a Megatron-LM plan
  std::optional<std::string> job;          // file; if not given: the job in the plan, else GPT-3 XL
  std::optional<int> batch;                // sequences; if not given: that of the job
  std::optional<std::string> scenario;     // file; if not given: no disturbances
  std::optional<std::string> measured;     // file with the timeline of a training to compare with
  std::optional<std::string> calibration;  // file or name of a shipped one; if not given: see calibration_for
  std::optional<int> iterations;           // empty: the default of the scheme
  std::uint64_t seed = 0;
  std::optional<int> samples;
  Work work;                                                // threads and ranks
  std::vector<std::string> common;                          // options that must be the same in all processes
  std::optional<std::string> output, trace, tasks, report;  // files
  OutputFormat format = OutputFormat::text;
  ColorChoice color = ColorChoice::automatic;
  bool stats = false, quiet = false;
};

/// Runs the command and returns the exit code. Throws Error for bad input.
int run_simulate_command(const SimulateOptions& options);

}  // namespace dtfm::cli
