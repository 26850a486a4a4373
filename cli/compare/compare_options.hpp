// Options of dtfm-compare.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/common/output_format.hpp"
#include "cli/common/style.hpp"
#include "core/base/work.hpp"

namespace dtfm::cli {

struct CompareOptions {
  std::string topology;                    // file
  std::optional<std::string> job;          // file; if not given: GPT-3 XL
  std::optional<std::string> model;        // config.json or preset; if not given: of the job
  std::optional<int> sequence;             // tokens; if not given: of the model
  std::optional<int> batch;                // sequences; if not given: that of the job
  std::optional<std::string> calibration;  // file or name of a shipped one; if not given: see calibration_for
  std::vector<std::string> scenarios;      // files; the nominal scenario is always simulated, too
  std::vector<std::string> schemes;        // names; empty: all
  std::optional<int> iterations;           // empty: the default of the scheme
  std::optional<int> sync_every;
  double verify = 0, faulty_share = 0;  // fractions of a swarm's calls and peers
  double skip = 0.25;                   // fraction of the stages
  std::uint64_t seed = 0;
  Work work;                                  // threads and ranks
  std::vector<std::string> common;            // options that must be the same in all processes
  std::optional<std::string> output, report;  // files
  OutputFormat format = OutputFormat::text;
  ColorChoice color = ColorChoice::automatic;
  bool quiet = false, list_schemes = false;
};

/// Runs the command and returns the exit code. Throws Error for bad input.
int run_compare_command(const CompareOptions& options);

}  // namespace dtfm::cli
