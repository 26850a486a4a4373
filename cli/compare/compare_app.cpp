#include "cli/compare/compare_app.hpp"

#include <algorithm>
#include <string>

#include "cli/common/command_line.hpp"
#include "cli/common/parse_number.hpp"
#include "cli/common/problem_options.hpp"
#include "cli/common/scheme_options.hpp"
#include "planner/api/compare.hpp"
#include "core/base/error.hpp"
#include "core/io/text/suggest.hpp"

namespace dtfm::cli {
namespace {

constexpr const char* footer =
    R"(Every scheme trains the same job on the same devices, or on some of them, in the fastest of its
layouts that fit in memory. The order of lines in TOPOLOGY does not matter. All are simulated with
the same constants, scenarios and seed. A batch is the global batch of the job; the time per batch
follows from tokens per second. Costs are those of devices, without egress.

Exit codes: 0 done, 1 internal error, 2 bad usage or bad input (nothing is written), 3 no scheme
has a feasible layout, 130 interrupted (the result so far has been written).

Examples:
  dtfm-compare worldwide.yaml
  dtfm-compare worldwide.yaml --job my-job.yaml --scenario spot.yaml -o table.json
  dtfm-compare lab.yaml --model Qwen3-8B/config.json
  dtfm-compare worldwide.yaml --scheme planned --scheme megatron --scheme zero3
  dtfm-compare worldwide.yaml --scenario spot.yaml --report comparison.html    (opens in any browser)
  dtfm-compare worldwide.yaml --format json | jq '.schemes[] | [.scheme, .runs[0].seconds_per_batch]')";

void add_input_options(CLI::App& app, CompareOptions& options) {
  begin_group(app, heading::inputs);
  add_argument(app, "TOPOLOGY", "devices and the network between them (YAML)", options.topology);
  add_option(app, "--job", "FILE", "job to train (YAML) [GPT-3 XL]",
             [&](const std::string& text) { options.job = text; });
  add_model_options(app, options.model, options.sequence);
  add_batch_option(app, options.batch);
  add_calibration_option(app, options.calibration);
}

void add_scheme_options(CLI::App& app, CompareOptions& options) {
  begin_group(app, heading::schemes);
  set_completion_values(
      *add_repeatable_option(app, "--scheme", "NAME", "scheme to compare [all]; may be repeated",
                             [&](const std::string& name) { options.schemes.push_back(name); }),
      api::compared_schemes());
  add_flag(app, "--list-schemes", "lists the schemes and exits", options.list_schemes);
  add_scheme_parameter_options(app, options.sync_every, options.skip, options.verify, options.faulty_share);
}

void add_simulation_options(CLI::App& app, CompareOptions& options) {
  begin_group(app, heading::simulation);
  add_repeatable_option(app, "--scenario", "FILE",
                        "also simulates under a scenario (YAML) [none]; may be repeated",
                        [&](const std::string& file) { options.scenarios.push_back(file); });
  add_option(app, "--iterations", "N",
             "training iterations, unless the scenario has a horizon [3; swarm: 100]",
             [&](const std::string& text) {
               options.iterations = parse_whole_number("--iterations", text, 1, 1'000'000);
             });
  add_seed_option(app, "seed of random ranks and of the scenarios [0]", options.seed);
}

void add_output_options(CLI::App& app, CompareOptions& options) {
  begin_group(app, heading::output);
  add_option(app, "-o,--output", "FILE", "writes the comparison (JSON); - for stdout instead of the tables",
             [&](const std::string& text) { options.output = text; });
  add_option(app, "--report", "FILE.html", "writes a page with charts of the comparison (HTML)",
             [&](const std::string& text) { options.report = text; });
  add_format_option(app, options.format);
}

void add_general_options(CLI::App& app, CompareOptions& options) {
  begin_group(app, heading::general);
  add_threads_option(app, options.work.threads);
  add_color_option(app, options.color);
  add_flag(app, "--quiet", "prints no progress", options.quiet);
  add_version_option(app, "dtfm-compare " DTFM_VERSION);
  add_help_option(app);
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

}  // namespace

void add_compare_options(CLI::App& app, CompareOptions& options) {
  set_texts(app, "dtfm-compare",
            "Plans and simulates different ways to train a job on the same devices, and compares them.",
            footer);
  add_input_options(app, options);
  add_scheme_options(app, options);
  add_simulation_options(app, options);
  add_output_options(app, options);
  add_general_options(app, options);
}

std::optional<CompareOptions> parse_compare_options(int argc, char** argv) {
  const AppPointer app = make_app();
  CompareOptions options;
  add_compare_options(*app, options);
  if (!parse_command_line(*app, argc, argv)) return std::nullopt;
  check_compare_options(*app, options);
  options.common = common_options(*app);
  return options;
}

}  // namespace dtfm::cli
