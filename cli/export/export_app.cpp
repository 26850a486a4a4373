#include "cli/export/export_app.hpp"

#include <string>

#include <fmt/format.h>

#include "cli/common/command_line.hpp"
#include "planner/export/exporter.hpp"

namespace dtfm::cli {
namespace {

constexpr const char* notes =
    R"(One trainer and several launchers can be combined; they then share one order of ranks. The folder
always contains rank_table.json, the role of every rank, and README.md, how to start. If a target
cannot express the plan, nothing is written. The generated files are parsed again and compared with
the plan. A plan that exceeds the memory of devices, by the estimate in its file, is exported with a
note on stderr.

machines.txt gives the address of each machine, one per line:
  oregon/0   10.0.0.17        # the name in the plan, and the address
  my desk    desk.example.org  # the last word is the address
Without it, the address of a machine is its name with / replaced by -.

A trainer may run a plan with other settings than planned, such as its own schedule. With --topology,
the summary has the simulated time of both. `dtfm-plan --target` plans with the trainer's settings.

Exit codes: 0 done, 1 internal error, 2 bad usage or bad input, 3 the target cannot run the plan, or
--strict refuses it.)";

constexpr const char* examples = R"(Examples:
  dtfm-export plan.json --to megatron,torchrun -o exported
  dtfm-export plan.json --to megatron --topology worldwide.yaml --strict -o exported
  dtfm-export plan.json --to pytorch,slurm --hosts machines.txt -o exported
  dtfm-export plan.json --to torchrun --agents host --order pipeline-major -o exported
  dtfm-export plan.json --to netem --topology worldwide.yaml -o network
  dtfm-export --list-targets)";

void add_output_options(OptionList& list, ExportOptions& options) {
  begin_group(list, heading::output);
  add_option(list, "-o,--output", "DIR", "output folder; created if it does not exist",
             [&](const std::string& text) { options.folder = text; });
  add_force_option(list, options);
  add_format_option(list, options.format);
}

}  // namespace

std::string format_targets(std::string_view margin) {
  std::string text;
  for (const exporter::Exporter& exporter : exporter::exporters())
    text += fmt::format(
        "{}{:<19} {:<8} {}{}\n", margin, exporter.name, exporter.is_trainer ? "trainer" : "launcher",
        exporter.what,
        exporter.is_trainer ? fmt::format(" ({}: {})", name_of(exporter.evidence), exporter.version) : "");
  return text;
}

void add_export_options(OptionList& list, ExportOptions& options) {
  set_texts(list, "dtfm-export", "Exports a plan to the file formats of trainers and launchers.",
            fmt::format("Targets:\n{}\n{}\n\n{}", format_targets("  "), notes, examples));
  add_export_inputs(list, options);
  add_target_options(list, options);
  add_flag(list, "--list-targets", "lists the targets and exits", options.list_targets);
  add_launch_options(list, options);
  add_output_options(list, options);
  add_general_options(list, options.color, options.quiet, "prints only errors and memory notes",
                      "dtfm-export " DTFM_VERSION);
}

std::optional<ExportOptions> parse_export_options(int argc, char** argv) {
  OptionList list;
  ExportOptions options;
  add_export_options(list, options);
  if (!parse_command_line(list, argc, argv)) return std::nullopt;
  if (options.list_targets) return options;
  if (!options.plan.is_given()) throw Error("", "PLAN is missing (see dtfm-export --help)");
  check_export_options(options);
  return options;
}

}  // namespace dtfm::cli
