#include "cli/simulate/sim_app.hpp"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/common/command_line.hpp"
#include "cli/common/parse_number.hpp"
#include "cli/common/plan_formats_help.hpp"
#include "cli/common/scheme_options.hpp"
#include "cli/simulate/simulate_options.hpp"
#include "planner/api/schemes/scheme.hpp"
#include "planner/io/text/suggest.hpp"

namespace dtfm::cli {
namespace {

constexpr const char* examples =
    R"(Examples:
  dtfm-plan worldwide.yaml -o plan.json && dtfm-sim worldwide.yaml plan.json
  dtfm-sim worldwide.yaml plan.json --scenario evening.yaml --iterations 20 -o result.json
  dtfm-sim worldwide.yaml plan.json --scenario spot.yaml --samples 100 --format json | jq .samples
  dtfm-sim worldwide.yaml plan.json --trace trace.json      (opens in ui.perfetto.dev)
  dtfm-sim worldwide.yaml plan.json --report run.html    (opens in any browser)
  dtfm-sim worldwide.yaml table.csv --job my-job.yaml
  dtfm-sim worldwide.yaml --scheme megatron --job my-job.yaml --trace trace.json
  dtfm-sim worldwide.yaml --scheme swarm --job my-job.yaml --scenario spot.yaml --verify 0.1 -o swarm.json
  dtfm-sim worldwide.yaml train.sh --ranks rankfile --job my-job.yaml

The name - is stdout for -o, --trace and --tasks, one of them; then no summary is printed.

With --graph, any task graph is replayed instead of a plan; times in s, sizes in bytes, rates in bytes per second:
  host a
  host b
  link wan 125e6 0.05
  route a b wan
  compute forward a 1.5
  flow send a b 64e6 after forward

  dtfm-sim --graph ring.txt
  dtfm-sim --graph ring.txt --tasks dates.csv --quiet
  dtfm-sim --graph ring.txt --tasks - | sort -t, -k5g | tail -1
  dtfm-sim --graph ring.txt --stats -o result.json

Exit codes: 0 done, 1 internal error, 2 bad usage or bad input, 3 the plan does not fit in the memory of a device, or can
never complete an iteration under the scenario (the result has been written and says why), or no layout of the scheme
fits, 130 interrupted (what there was by then has been written).)";

std::vector<std::string> scheme_names() {
  std::vector<std::string> names;
  for (const api::Scheme& it : api::schemes()) names.emplace_back(it.name);
  return names;
}

void add_input_options(CLI::App& app, SimulateOptions& options) {
  app.add_option("TOPOLOGY", options.topology, "the machines and the network between them (YAML)")
      ->type_name("");
  app.add_option("PLAN", options.plan, "who computes what, in any of the formats below")->type_name("");
  add_option(app, "--job", "FILE", "what is trained (YAML), in place of the job in the plan",
             [&](const std::string& text) { options.job = text; });
  set_completion_values(
      *add_option(app, "--scheme", "NAME",
                  "in place of PLAN, what another system would run; names: dtfm-compare --list-schemes",
                  [&](const std::string& text) {
                    options.scheme = io::find_row(api::schemes(), text, "--scheme", "unknown scheme").name;
                  }),
      scheme_names());
  add_option(app, "--sync-every", "N",
             "of schemes local-sgd (16) and diloco (500): iterations between synchronizations",
             [&](const std::string& text) {
               options.sync_every = parse_whole_number("--sync-every", text, 1, 10'000);
             });
  add_option(app, "--skip", "SHARE", "of scheme skip-pipe: stages that a micro-batch leaves out (0.25)",
             [&](const std::string& text) { options.skip = parse_fraction_below_one("--skip", text); });
  add_option(app, "--verify", "P", "of scheme swarm: share of the calls that a second peer computes too (0)",
             [&](const std::string& text) { options.verify = parse_fraction_up_to_one("--verify", text); });
  add_option(
      app, "--lying", "P", "of scheme swarm: share of the peers that lie (0)",
      [&](const std::string& text) { options.faulty_share = parse_fraction_up_to_one("--lying", text); });
  add_option(app, "--ranks", "FILE", "the device of each rank of a Megatron plan",
             [&](const std::string& text) { options.ranks = text; });
  add_option(app, "--scenario", "FILE", "what happens meanwhile (YAML); nothing when not given",
             [&](const std::string& text) { options.scenario = text; });
  add_option(app, "--calibration", "FILE",
             "the constants of the model, as dtfm-calibrate -o writes them; then times have an interval",
             [&](const std::string& text) { options.calibration = text; });
  add_option(app, "--iterations", "N",
             "of training, steps of a swarm (3); a scenario's horizon takes their place",
             [&](const std::string& text) {
               options.iterations = parse_whole_number("--iterations", text, 1, 1'000'000);
             });
  add_seed_option(app, "of the random numbers, with that of the scenario (0)", options.seed);
  add_option(app, "--samples", "N", "runs of a random scenario, each with random numbers of its own",
             [&](const std::string& text) {
               options.samples = parse_whole_number("--samples", text, 1, 1'000'000);
             });
  add_threads_option(app, "for --samples; all cores when not given; any number gives the same result",
                     options.threads);
  add_option(app, "--graph", "FILE", "replays this task graph instead of a plan",
             [&](const std::string& text) { options.graph = text; });
}

void add_output(CLI::App& app, SimulateOptions& options) {
  add_option(app, "-o,--output", "FILE", "writes the result (JSON)",
             [&](const std::string& text) { options.output = text; });
  add_option(app, "--trace", "FILE", "writes a timeline (Chrome trace event JSON)",
             [&](const std::string& text) { options.trace = text; });
  add_option(app, "--tasks", "FILE", "writes when each task was ready, started and finished (CSV)",
             [&](const std::string& text) { options.tasks = text; });
  add_option(app, "--report", "FILE.html", "writes a page with charts of the run (HTML)",
             [&](const std::string& text) { options.report = text; });
  add_format_option(app, options.format);
  add_color_option(app, options.color);
  app.add_flag("--stats", options.stats, "a line of JSON on stderr: counts, CPU time, memory");
  app.add_flag("--quiet", options.quiet, "no progress; with --graph, no summary either");
  app.set_version_flag("--version", "dtfm-sim " DTFM_VERSION);
}

/// A task graph knows nothing of plans.
void reject_options_with_graph(const CLI::App& app) {
  reject_options(app,
                 {"TOPOLOGY", "PLAN", "--scheme", "--sync-every", "--skip", "--verify", "--lying", "--job",
                  "--scenario", "--calibration", "--iterations", "--seed", "--samples", "--threads",
                  "--ranks", "--trace", "--report", "--format"},
                 "is for plans, and --graph replays none");
}

/// What is of some schemes, or of plans, must not be ignored beside another.
void check_scheme_specific_options(const CLI::App& app, const SimulateOptions& options) {
  if (!options.scheme)
    return reject_options(app, {"--sync-every", "--skip", "--verify", "--lying"},
                          "is of a scheme, and there is none without --scheme");
  reject_options(app, {"PLAN", "--ranks"}, "is of a plan, and --scheme makes its own");
  check_scheme_options(app, {*options.scheme});
  if (api::is_swarm(io::find_row(api::schemes(), *options.scheme, "--scheme", "unknown scheme")))
    reject_options(app, {"--trace", "--tasks", "--report", "--samples"},
                   "is for plans, and a swarm has none");
}

}  // namespace

void add_sim_options(CLI::App& app, SimulateOptions& options) {
  app.name("dtfm-sim");
  app.description("Replays a plan, or any graph of computations and transfers, event by event.");
  app.footer(fmt::format("{}\n\n{}", examples, plan_formats_help));
  add_input_options(app, options);
  add_output(app, options);
}

void check_sim_options(const CLI::App& app, const SimulateOptions& options) {
  if (options.graph) return reject_options_with_graph(app);
  if (options.topology.empty())
    throw Error("", "TOPOLOGY PLAN or --graph FILE is missing (see dtfm-sim --help)");
  check_scheme_specific_options(app, options);
  if (options.plan.empty() && !options.scheme) throw Error("", "PLAN is missing (see dtfm-sim --help)");
  // Files of every task are of one run.
  if (options.samples) reject_options(app, {"--trace", "--tasks"}, "is of one run, and --samples makes many");
}

}  // namespace dtfm::cli
