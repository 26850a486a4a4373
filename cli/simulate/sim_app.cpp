#include "cli/simulate/sim_app.hpp"

#include <string>

#include <fmt/format.h>

#include "cli/common/command_line.hpp"
#include "cli/common/launcher.hpp"
#include "cli/common/plan_formats_help.hpp"
#include "cli/simulate/simulate_options.hpp"
#include "planner/api/schemes/scheme.hpp"
#include "core/base/error.hpp"

namespace dtfm::cli {
namespace {

constexpr const char* notes =
    R"(A task graph for --graph, with times in s, sizes in bytes and rates in bytes per second:
  host a
  host b
  link wan 125e6 0.05
  route a b wan
  compute forward a 1.5
  flow send a b 64e6 after forward

Exit codes: 0 done, 1 internal error, 2 bad usage or bad input, 3 the plan exceeds the memory of a
device, never completes an iteration under the scenario (the result has been written and says why),
or no layout of the scheme fits, 130 interrupted (the result so far has been written).)";

constexpr const char* examples =
    R"(Examples:
  dtfm-plan worldwide.yaml -o plan.json && dtfm-sim worldwide.yaml plan.json
  dtfm-sim worldwide.yaml plan.json --scenario evening.yaml --iterations 20 -o result.json
  dtfm-sim worldwide.yaml plan.json --scenario spot.yaml --samples 100 --format json | jq .samples
  dtfm-sim worldwide.yaml plan.json --trace trace.json      (opens in ui.perfetto.dev)
  dtfm-sim worldwide.yaml plan.json --report run.html       (opens in any browser)
  dtfm-sim worldwide.yaml table.csv --job my-job.yaml
  dtfm-sim worldwide.yaml train.sh --ranks rankfile --job my-job.yaml
  dtfm-sim worldwide.yaml --scheme megatron --job my-job.yaml --trace trace.json
  dtfm-sim worldwide.yaml --scheme swarm --scenario spot.yaml --verify 0.1 -o swarm.json
  dtfm-sim --graph ring.txt --tasks tasks.csv --quiet
  dtfm-sim --graph ring.txt --tasks - | sort -t, -k5g | tail -1
  dtfm-sim --graph ring.txt --stats -o result.json)";

void add_output_options(OptionList& list, SimulateOptions& options) {
  begin_group(list, heading::output);
  add_option(list, "-o,--output", "FILE", "writes the result (JSON); - for stdout instead of the summary",
             [&](const std::string& text) { options.output = text; });
  add_option(list, "--trace", "FILE", "writes a timeline (Chrome trace event JSON); - for stdout",
             [&](const std::string& text) { options.trace = text; });
  add_option(list, "--tasks", "FILE", "writes ready, start and finish time of each task (CSV); - for stdout",
             [&](const std::string& text) { options.tasks = text; });
  add_option(list, "--report", "FILE.html", "writes a page with charts of the run (HTML)",
             [&](const std::string& text) {
               options.report = text;
               options.records_timeline = true;
             });
  add_format_option(list, options.format);
  add_flag(list, "--stats", "prints counts, CPU time and memory on stderr (one line of JSON)", options.stats);
}

void reject_options_with_graph(const OptionList& list) {
  reject_options(list, {"TOPOLOGY",      "PLAN",           "--scheme", "--sync-every", "--skip",
                        "--verify",      "--faulty-peers", "--job",    "--batch",      "--scenario",
                        "--calibration", "--iterations",   "--seed",   "--samples",    "--threads",
                        "--ranks",       "--trace",        "--report", "--format",     "--measured"},
                 "cannot be combined with --graph");
}

void check_sim_options(const OptionList& list, const SimulateOptions& options) {
  if (options.graph) return reject_options_with_graph(list);
  if (!options.topology.is_given())
    throw Error("", "TOPOLOGY PLAN or --graph FILE is missing (see dtfm-sim --help)");
  if (!options.plan.is_given() && !options.scheme) throw Error("", "PLAN is missing (see dtfm-sim --help)");
  check_simulate_options(list, options);
  if (options.samples) reject_options(list, {"--trace", "--tasks"}, "cannot be combined with --samples");
  if (options.scheme && api::is_swarm(api::scheme_named(*options.scheme)))
    reject_options(list, {"--trace", "--tasks", "--report"}, "cannot be combined with --scheme swarm");
}

}  // namespace

void add_sim_options(OptionList& list, SimulateOptions& options) {
  set_texts(list, "dtfm-sim", "Simulates a plan, another system or a task graph, with discrete events.",
            fmt::format("{}\n\n{}\n\n{}", plan_formats_help, notes, examples));
  add_simulate_inputs(list, options);
  add_option(list, "--graph", "FILE", "simulates a task graph instead of a plan",
             [&](const std::string& text) { options.graph = text; });
  add_scheme_options(list, options);
  add_simulation_options(list, options);
  add_output_options(list, options);
  begin_group(list, heading::general);
  add_threads_option(list, available_cores(), options.work.threads);
  add_general_options(list, options.color, options.quiet,
                      "prints no progress; with --graph, no summary either", "dtfm-sim " DTFM_VERSION);
}

std::optional<SimulateOptions> parse_sim_options(int argc, char** argv) {
  OptionList list;
  SimulateOptions options;
  add_sim_options(list, options);
  if (!parse_command_line(list, argc, argv)) return std::nullopt;
  check_sim_options(list, options);
  options.common = common_options(list);
  return options;
}

}  // namespace dtfm::cli
