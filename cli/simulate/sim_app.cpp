#include "cli/simulate/sim_app.hpp"

#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/common/command_line.hpp"
#include "cli/common/parse_number.hpp"
#include "cli/common/plan_formats_help.hpp"
#include "cli/common/problem_options.hpp"
#include "cli/common/scheme_options.hpp"
#include "cli/simulate/simulate_options.hpp"
#include "planner/api/compare.hpp"
#include "planner/api/schemes/scheme.hpp"
#include "core/base/error.hpp"
#include "core/io/text/suggest.hpp"

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

std::vector<std::string> scheme_names() {
  std::vector<std::string> names;
  for (const api::Scheme& it : api::schemes()) names.emplace_back(it.name);
  return names;
}

void add_input_options(CLI::App& app, SimulateOptions& options) {
  begin_group(app, heading::inputs);
  add_argument(app, "TOPOLOGY", "devices and the network between them (YAML)", options.topology);
  add_argument(app, "PLAN", "plan to simulate, in any format below", options.plan);
  add_option(app, "--job", "FILE", "job to train (YAML) [that in the plan, or GPT-3 XL]",
             [&](const std::string& text) { options.job = text; });
  add_batch_option(app, options.batch);
  add_option(app, "--ranks", "FILE", "device of each rank of a Megatron-LM plan",
             [&](const std::string& text) { options.ranks = text; });
  add_calibration_option(app, options.calibration);
  add_option(app, "--graph", "FILE", "simulates a task graph instead of a plan",
             [&](const std::string& text) { options.graph = text; });
}

void add_scheme_options(CLI::App& app, SimulateOptions& options) {
  begin_group(app, heading::schemes);
  set_completion_values(
      *add_option(app, "--scheme", "NAME",
                  "simulates another system instead of PLAN; see dtfm-compare --list-schemes",
                  [&](const std::string& text) {
                    if (text == api::planned_scheme)
                      throw Error("--scheme",
                                  "planned is not simulated by name: write the plan with dtfm-plan -o "
                                  "FILE, and give FILE as PLAN");
                    options.scheme = io::find_row(api::schemes(), text, "--scheme", "unknown scheme").name;
                  }),
      scheme_names());
  add_scheme_parameter_options(app, options.sync_every, options.skip, options.verify, options.faulty_share);
}

void add_simulation_options(CLI::App& app, SimulateOptions& options) {
  begin_group(app, heading::simulation);
  add_option(app, "--scenario", "FILE", "failures, traces and jitter during the run (YAML) [none]",
             [&](const std::string& text) { options.scenario = text; });
  add_option(app, "--iterations", "N",
             "training iterations, unless the scenario has a horizon [3; swarm: 100]",
             [&](const std::string& text) {
               options.iterations = parse_whole_number("--iterations", text, 1, 1'000'000);
             });
  add_option(app, "--samples", "N", "number of runs of a random scenario, with different seeds [1]",
             [&](const std::string& text) {
               options.samples = parse_whole_number("--samples", text, 1, 1'000'000);
             });
  add_option(app, "--measured", "FILE",
             "compares with an iteration of a training: its timeline (train.py --trace) [none]",
             [&](const std::string& text) { options.measured = text; });
  add_seed_option(app, "seed of the random numbers, combined with that of the scenario [0]", options.seed);
}

void add_output_options(CLI::App& app, SimulateOptions& options) {
  begin_group(app, heading::output);
  add_option(app, "-o,--output", "FILE", "writes the result (JSON); - for stdout instead of the summary",
             [&](const std::string& text) { options.output = text; });
  add_option(app, "--trace", "FILE", "writes a timeline (Chrome trace event JSON); - for stdout",
             [&](const std::string& text) { options.trace = text; });
  add_option(app, "--tasks", "FILE", "writes ready, start and finish time of each task (CSV); - for stdout",
             [&](const std::string& text) { options.tasks = text; });
  add_option(app, "--report", "FILE.html", "writes a page with charts of the run (HTML)",
             [&](const std::string& text) { options.report = text; });
  add_format_option(app, options.format);
  add_flag(app, "--stats", "prints counts, CPU time and memory on stderr (one line of JSON)", options.stats);
}

void add_general_options(CLI::App& app, SimulateOptions& options) {
  begin_group(app, heading::general);
  add_threads_option(app, options.work.threads);
  add_color_option(app, options.color);
  add_flag(app, "--quiet", "prints no progress; with --graph, no summary either", options.quiet);
  add_version_option(app, "dtfm-sim " DTFM_VERSION);
  add_help_option(app);
}

void reject_options_with_graph(const CLI::App& app) {
  reject_options(app, {"TOPOLOGY",      "PLAN",           "--scheme", "--sync-every", "--skip",
                       "--verify",      "--faulty-peers", "--job",    "--batch",      "--scenario",
                       "--calibration", "--iterations",   "--seed",   "--samples",    "--threads",
                       "--ranks",       "--trace",        "--report", "--format",     "--measured"},
                 "cannot be combined with --graph");
}

/// Throws Error for an option that the scheme, or the plan if there is none, does not use.
void check_scheme_specific_options(const CLI::App& app, const SimulateOptions& options) {
  if (!options.scheme)
    return reject_options(app, {"--sync-every", "--skip", "--verify", "--faulty-peers"}, "requires --scheme");
  reject_options(app, {"PLAN", "--ranks"}, "cannot be combined with --scheme");
  check_scheme_options(app, {*options.scheme});
  if (api::is_swarm(api::scheme_named(*options.scheme)))
    reject_options(app, {"--trace", "--tasks", "--report", "--samples", "--measured"},
                   "cannot be combined with --scheme swarm");
}

void check_sim_options(const CLI::App& app, const SimulateOptions& options) {
  if (options.graph) return reject_options_with_graph(app);
  if (options.topology.empty())
    throw Error("", "TOPOLOGY PLAN or --graph FILE is missing (see dtfm-sim --help)");
  check_scheme_specific_options(app, options);
  if (options.plan.empty() && !options.scheme) throw Error("", "PLAN is missing (see dtfm-sim --help)");
  if (options.samples)
    reject_options(app, {"--trace", "--tasks", "--measured"}, "cannot be combined with --samples");
}

}  // namespace

void add_sim_options(CLI::App& app, SimulateOptions& options) {
  set_texts(app, "dtfm-sim", "Simulates a plan, another system or a task graph, with discrete events.",
            fmt::format("{}\n\n{}\n\n{}", plan_formats_help, notes, examples));
  add_input_options(app, options);
  add_scheme_options(app, options);
  add_simulation_options(app, options);
  add_output_options(app, options);
  add_general_options(app, options);
}

std::optional<SimulateOptions> parse_sim_options(int argc, char** argv) {
  const AppPointer app = make_app();
  SimulateOptions options;
  add_sim_options(*app, options);
  if (!parse_command_line(*app, argc, argv)) return std::nullopt;
  check_sim_options(*app, options);
  options.common = common_options(*app);
  return options;
}

}  // namespace dtfm::cli
