#include "cli/compare/compare_app.hpp"

#include <string>

#include "cli/common/command_line.hpp"
#include "cli/common/launcher.hpp"
#include "cli/compare/compare_options.hpp"
#include "core/base/error.hpp"

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

void add_output_options(OptionList& list, CompareOptions& options) {
  begin_group(list, heading::output);
  add_option(list, "-o,--output", "FILE", "writes the comparison (JSON); - for stdout instead of the tables",
             [&](const std::string& text) { options.output = text; });
  add_option(list, "--report", "FILE.html", "writes a page with charts of the comparison (HTML)",
             [&](const std::string& text) { options.report = text; });
  add_format_option(list, options.format);
}

void check_command(const OptionList& list, const CompareOptions& options) {
  if (options.list_schemes) return;
  if (!options.topology.is_given()) throw Error("", "TOPOLOGY is missing (see dtfm-compare --help)");
  check_compare_options(list, options);
}

}  // namespace

void add_compare_options(OptionList& list, CompareOptions& options) {
  set_texts(list, "dtfm-compare",
            "Plans and simulates different ways to train a job on the same devices, and compares them.",
            footer);
  add_compare_inputs(list, options);
  add_scheme_options(list, options);
  add_flag(list, "--list-schemes", "lists the schemes and exits", options.list_schemes);
  add_simulation_options(list, options);
  add_output_options(list, options);
  begin_group(list, heading::general);
  add_threads_option(list, available_cores(), options.work.threads);
  add_general_options(list, options.color, options.quiet, "prints no progress", "dtfm-compare " DTFM_VERSION);
}

std::optional<CompareOptions> parse_compare_options(int argc, char** argv) {
  OptionList list;
  CompareOptions options;
  add_compare_options(list, options);
  if (!parse_command_line(list, argc, argv)) return std::nullopt;
  check_command(list, options);
  options.common = common_options(list);
  return options;
}

}  // namespace dtfm::cli
