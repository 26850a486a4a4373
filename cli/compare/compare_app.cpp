#include "cli/compare/compare_app.hpp"

#include <algorithm>
#include <string>

#include <CLI/CLI.hpp>

#include "cli/common/command_line.hpp"
#include "cli/common/parse_number.hpp"
#include "cli/common/scheme_options.hpp"
#include "planner/api/compare.hpp"
#include "planner/core/error.hpp"
#include "planner/io/text/suggest.hpp"

namespace dtfm::cli {
namespace {

constexpr const char* examples = R"(Examples:
  dtfm-compare worldwide.yaml
  dtfm-compare worldwide.yaml --job my-job.yaml --scenario spot.yaml --scenario evening.yaml -o table.json
  dtfm-compare worldwide.yaml --scheme planned --scheme megatron --scheme zero3
  dtfm-compare worldwide.yaml --scenario spot.yaml --report comparison.html    (opens in any browser)
  dtfm-compare worldwide.yaml --format json | jq '.schemes[] | [.scheme, .runs[0].seconds_per_batch]'

Every scheme trains the same job on the same machines, in the fastest of the layouts that it allows and that fit the
memory; the simulator says how long each takes, by the same constants, under the same scenarios with the same seed.
A batch is that of the job: schemes that complete something else than batches are told by their tokens a second.
Dollars are those of the devices, without egress.

Exit codes: 0 done, 1 internal error, 2 bad usage or bad input (nothing is written, which is so too where the input
allows to simulate no scheme), 3 no scheme fits the machines, 130 interrupted (what there was by then has been
written).)";

}  // namespace

void add_compare_options(CLI::App& app, CompareOptions& options) {
  app.name("dtfm-compare");
  app.description("Plans and simulates every way to train a job on the same machines, and compares them.");
  app.footer(examples);
  app.add_option("TOPOLOGY", options.topology, "the machines and the network between them (YAML)")
      ->type_name("");
  add_option(app, "--job", "FILE", "what is trained (YAML); GPT-3 XL when not given",
             [&](const std::string& text) { options.job = text; });
  app.add_option("--scenario", options.scenarios,
                 "what happens meanwhile (YAML), beside nothing at all; may be given again and again")
      ->type_name("FILE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  set_completion_values(
      *app.add_option("--scheme", options.schemes,
                      "compares these alone; may be given again and again; see --list-schemes")
           ->type_name("NAME")
           ->expected(1)
           ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll),
      api::compared_schemes());
  app.add_flag("--list-schemes", options.list_schemes, "names the schemes and exits");
  add_option(app, "--calibration", "FILE", "the constants of the model, as dtfm-calibrate -o writes them",
             [&](const std::string& text) { options.calibration = text; });
  add_option(app, "--iterations", "N", "of training (3); a scenario's horizon takes their place",
             [&](const std::string& text) {
               options.iterations = parse_whole_number("--iterations", text, 1, 1'000'000);
             });
  add_option(app, "--sync-every", "N",
             "iterations between synchronizations of local-sgd (16) and diloco (500)",
             [&](const std::string& text) {
               options.sync_every = parse_whole_number("--sync-every", text, 1, 10'000);
             });
  add_option(app, "--skip", "SHARE", "stages that micro-batches of skip-pipe leave out (0.25)",
             [&](const std::string& text) { options.skip = parse_fraction_below_one("--skip", text); });
  add_option(app, "--verify", "P", "share of a swarm's calls that a second peer computes too, 0 to 1 (0)",
             [&](const std::string& text) { options.verify = parse_fraction_up_to_one("--verify", text); });
  add_option(
      app, "--lying", "P", "share of a swarm's peers that lie, 0 to 1 (0)",
      [&](const std::string& text) { options.faulty_share = parse_fraction_up_to_one("--lying", text); });
  add_seed_option(app, "of random ranks, and of the scenarios (0)", options.seed);
  add_threads_option(app, "all cores when not given; any number gives the same result", options.threads);
  add_option(app, "-o,--output", "FILE", "writes the comparison (JSON); - is stdout, in place of the table",
             [&](const std::string& text) { options.output = text; });
  add_option(app, "--report", "FILE.html", "writes a page with charts of the comparison (HTML)",
             [&](const std::string& text) { options.report = text; });
  add_format_option(app, options.format);
  add_color_option(app, options.color);
  app.add_flag("--quiet", options.quiet, "no progress");
  app.set_version_flag("--version", "dtfm-compare " DTFM_VERSION);
}

void check_compare_options(const CLI::App& app, const CompareOptions& options) {
  if (!options.list_schemes && options.topology.empty())
    throw Error("", "TOPOLOGY is missing (see dtfm-compare --help)");
  const std::vector<std::string> names = api::compared_schemes();
  for (const std::string& scheme : options.schemes)
    if (std::find(names.begin(), names.end(), scheme) == names.end())
      io::fail_unknown("--scheme", "unknown scheme", scheme, {names.begin(), names.end()});
  if (!options.schemes.empty()) check_scheme_options(app, options.schemes);
}

}  // namespace dtfm::cli
