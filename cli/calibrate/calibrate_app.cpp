#include "cli/calibrate/calibrate_app.hpp"

#include <string>

#include <CLI/CLI.hpp>

#include "cli/calibrate/calibrate_options.hpp"
#include "cli/common/command_line.hpp"

namespace dtfm::cli {
namespace {

constexpr const char* examples = R"(Examples:
  dtfm-calibrate lab.yaml runs.csv -o calibration.json && dtfm-sim lab.yaml plan.json --calibration calibration.json
  dtfm-calibrate lab.yaml runs.csv --job small.yaml --format json | jq .fit.intervals

RUNS.csv has a line with the names of its columns and a line for each measured iteration, 5 to 200 of them:
  seconds                    how long an iteration took
  plan                       what ran: a file, as dtfm-plan -o writes it, in the folder of RUNS.csv or below
  pipeline, data             in its place, stages and pipelines over the devices in the order of TOPOLOGY
  micro_batch, global_batch  of rows without a plan, in place of the job's
  job                        a file; in place of --job, and of the job in the plan
  name                       for the tables
An empty cell, or one with -, says nothing. Runs of one plan may be there again and again. For example:
  plan,seconds                 pipeline,data,global_batch,seconds
  small.json,12.31             4,2,64,9.87
  small.json,12.05             4,2,128,17.50
  large.json,31.90             8,1,64,11.02

Runs that differ in what takes their time tell the constants apart: large and small models or micro-batches, few
and many micro-batches, one device and many, one pipeline and several. What the runs cannot tell stays near the
shipped value, and is said so. A run that no constants explain beside the others is named and not fitted.

Exit codes: 0 done, 1 a bug of ours, 2 bad usage or bad input.)";

}  // namespace

void add_calibrate_options(CLI::App& app, CalibrateOptions& options) {
  app.name("dtfm-calibrate");
  app.description("Fits the simulator's few constants to iterations that you have measured.");
  app.footer(examples);
  app.add_option("TOPOLOGY", options.topology, "the machines and the network between them (YAML)")
      ->type_name("");
  app.add_option("RUNS.csv", options.runs, "measured iterations")->type_name("");
  add_option(app, "--job", "FILE",
             "what was trained (YAML); the jobs in the plans, or GPT-3 XL, when not given",
             [&](const std::string& text) { options.job = text; });
  add_threads_option(app, "all cores when not given; any number gives the same result", options.threads);
  add_option(app, "-o,--output", "FILE", "writes the constants (JSON); - is stdout, in place of the tables",
             [&](const std::string& text) { options.output = text; });
  add_format_option(app, options.format);
  add_color_option(app, options.color);
  app.add_flag("--quiet", options.quiet, "no progress");
  app.set_version_flag("--version", "dtfm-calibrate " DTFM_VERSION);
}

void check_calibrate_options(const CalibrateOptions& options) {
  if (options.topology.empty()) throw Error("", "TOPOLOGY is missing (see dtfm-calibrate --help)");
  if (options.runs.empty()) throw Error("", "RUNS.csv is missing (see dtfm-calibrate --help)");
}

}  // namespace dtfm::cli
