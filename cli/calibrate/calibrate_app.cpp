#include "cli/calibrate/calibrate_app.hpp"

#include <string>

#include "cli/calibrate/calibrate_options.hpp"
#include "cli/common/command_line.hpp"
#include "cli/common/launcher.hpp"

namespace dtfm::cli {
namespace {

constexpr const char* footer =
    R"(RUNS.csv has a header with the names of its columns and one line per measured iteration, 1 to 200:
  seconds                    duration of the iteration
  log                        instead of seconds: log of MLPerf, or history of Weights & Biases (CSV, JSON Lines)
  peak_memory_bytes          of the device that needs most; two or more fit process_memory
  plan                       file written by dtfm-plan -o, in the folder of RUNS.csv or below
  pipeline, data             instead of a plan: stages and pipelines over the devices in file order
  micro_batch, global_batch  of rows without a plan, overriding the job
  job                        file, overriding --job and the job in the plan
  topology                   file, overriding TOPOLOGY; at most 20 different ones
  name                       label for the tables
An empty cell, or one with -, is ignored. A plan may have several rows. For example:
  plan,seconds                 pipeline,data,global_batch,seconds
  small.json,12.31             4,2,64,9.87
  small.json,12.05             4,2,128,17.50
  large.json,31.90             8,1,64,11.02

To identify the constants, runs must differ in what dominates their time: large and small models or
micro-batches, few and many micro-batches, one device and many, one pipeline and several. A constant
that the runs do not identify stays near its default and is marked. A run that the constants cannot
explain together with the others is reported as an outlier and left out of the fit. The output lists
which constants affect which runs, and the runs that the fit does not explain.

Exit codes: 0 done, 1 internal error, 2 bad usage or bad input.

Examples:
  dtfm-calibrate lab.yaml runs.csv -o calibration.json
  dtfm-sim lab.yaml plan.json --calibration calibration.json
  dtfm-calibrate lab.yaml runs.csv --job small.yaml --format json | jq .fit.intervals)";

void check_calibrate_options(const CalibrateOptions& options) {
  if (!options.topology.is_given()) throw Error("", "TOPOLOGY is missing (see dtfm-calibrate --help)");
  if (!options.runs.is_given()) throw Error("", "RUNS.csv is missing (see dtfm-calibrate --help)");
}

}  // namespace

void add_calibrate_options(OptionList& list, CalibrateOptions& options) {
  set_texts(list, "dtfm-calibrate", "Fits the calibration constants of the simulator to measured iterations.",
            footer);
  add_calibrate_inputs(list, options);
  begin_group(list, heading::output);
  add_option(list, "-o,--output", "FILE", "writes the constants (JSON); - for stdout instead of the tables",
             [&](const std::string& text) { options.output = text; });
  add_format_option(list, options.format);
  begin_group(list, heading::general);
  add_threads_option(list, available_cores(), options.work.threads);
  add_general_options(list, options.color, options.quiet, "prints no progress",
                      "dtfm-calibrate " DTFM_VERSION);
}

std::optional<CalibrateOptions> parse_calibrate_options(int argc, char** argv) {
  OptionList list;
  CalibrateOptions options;
  add_calibrate_options(list, options);
  if (!parse_command_line(list, argc, argv)) return std::nullopt;
  check_calibrate_options(options);
  return options;
}

}  // namespace dtfm::cli
