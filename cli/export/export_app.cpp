#include "cli/export/export_app.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "cli/common/command_line.hpp"
#include "cli/common/parse_number.hpp"
#include "cli/common/problem_options.hpp"
#include "planner/export/exporter.hpp"
#include "core/io/text/suggest.hpp"

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

/// Whether `text` is `first`; false if it is `second`. Throws Error for `option` otherwise.
bool parse_choice(const char* option, const std::string& text, const char* first, const char* second) {
  if (text == first || text == second) return text == first;
  throw Error(option, fmt::format("unknown {}; {}", io::quote(text), io::suggestion(text, {first, second})));
}

void add_targets(const std::string& text, std::vector<std::string>& targets) {
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string name(exporter::find_exporter(text.substr(begin, end - begin)).name);
    if (std::find(targets.begin(), targets.end(), name) == targets.end()) targets.push_back(name);
    begin = end + 1;
  }
}

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const exporter::Exporter& exporter : exporter::exporters()) names.emplace_back(exporter.name);
  return names;
}

void add_input_options(CLI::App& app, ExportOptions& options) {
  begin_group(app, heading::inputs);
  add_argument(app, "PLAN", "plan written by dtfm-plan -o (JSON)", options.plan);
  add_option(app, "--job", "FILE", "job (YAML) [that in the plan]",
             [&](const std::string& text) { options.job = text; });
  add_option(
      app, "--topology", "FILE",
      "topology for which the plan was made (YAML), to predict the time in the trainer; netem requires "
      "it",
      [&](const std::string& text) { options.topology = text; });
  add_calibration_option(app, options.calibration);
  add_option(app, "--hosts", "FILE", "addresses of the machines, one line `MACHINE ADDRESS` each",
             [&](const std::string& text) { options.hosts = text; });
}

void add_target_options(CLI::App& app, ExportOptions& options) {
  begin_group(app, "Targets");
  CLI::Option* to = add_repeatable_option(
      app, "--to", "TARGET", "trainers and launchers, comma-separated or repeated; see --list-targets",
      [&](const std::string& words) { add_targets(words, options.targets); });
  set_completion_values(*to, target_names());
  add_flag(
      app, "--strict",
      "refuses a plan that the trainer takes over 5 % longer for than planned, or that exceeds memory there",
      options.strict);
  add_flag(app, "--list-targets", "lists the targets and exits", options.list_targets);
}

void add_launch_options(CLI::App& app, ExportOptions& options) {
  begin_group(app, "Launch");
  add_option(app, "--order", "stage-major|pipeline-major", "order of ranks [that of the trainer]",
             [&](const std::string& text) {
               options.order = parse_choice("--order", text, "stage-major", "pipeline-major")
                                   ? RankOrder::stage_major
                                   : RankOrder::pipeline_major;
             });
  add_option(app, "--master", "MACHINE", "machine of rank 0; reorders pipelines so that one begins there",
             [&](const std::string& text) { options.master = text; });
  add_option(app, "--port", "N", "port on which rank 0 listens [29500]", [&](const std::string& text) {
    options.launch.port = parse_whole_number("--port", text, 1, 65535);
  });
  add_option(app, "--agents", "gpu|host", "torchrun: one agent per GPU or per machine [gpu]",
             [&](const std::string& text) {
               options.launch.agents = parse_choice("--agents", text, "gpu", "host")
                                           ? exporter::AgentPer::gpu
                                           : exporter::AgentPer::host;
             });
  add_option(
      app, "--cores", "N", "openmpi: CPU cores per machine; every rank may use all of them [16]",
      [&](const std::string& text) { options.launch.cores = parse_whole_number("--cores", text, 1, 65536); });
  add_flag(app, "--any-gpu", "kubernetes: a rank may use any GPU of its machine", options.launch.any_gpu);
  add_option(app, "--image", "NAME", "kubernetes: container image [dtfm-trainer:latest]",
             [&](const std::string& text) { options.launch.image = text; });
}

void add_output_options(CLI::App& app, ExportOptions& options) {
  begin_group(app, heading::output);
  add_option(app, "-o,--output", "DIR", "output folder; created if it does not exist",
             [&](const std::string& text) { options.folder = text; });
  add_flag(app, "--force",
           "writes to a DIR that contains other files, and overwrites those of the same names",
           options.force);
  add_format_option(app, options.format);
}

void add_general_options(CLI::App& app, ExportOptions& options) {
  begin_group(app, heading::general);
  add_color_option(app, options.color);
  add_flag(app, "--quiet", "prints only errors and memory notes", options.quiet);
  add_version_option(app, "dtfm-export " DTFM_VERSION);
  add_help_option(app);
}

void check_export_options(const ExportOptions& options) {
  if (options.list_targets) return;
  if (options.plan.empty()) throw Error("", "PLAN is missing (see dtfm-export --help)");
  if (options.targets.empty())
    throw Error("--to", "is missing: name a trainer or launcher (see dtfm-export --list-targets)");
  if (options.strict && !options.topology)
    throw Error("--strict", "requires --topology, to predict the time in the trainer");
  if (options.folder == "-") throw Error("--output", "must be a folder, not stdout");
  if (options.folder.empty()) throw Error("--output", "is missing: name the output folder");
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

void add_export_options(CLI::App& app, ExportOptions& options) {
  set_texts(app, "dtfm-export", "Exports a plan to the file formats of trainers and launchers.",
            fmt::format("Targets:\n{}\n{}\n\n{}", format_targets("  "), notes, examples));
  add_input_options(app, options);
  add_target_options(app, options);
  add_launch_options(app, options);
  add_output_options(app, options);
  add_general_options(app, options);
}

std::optional<ExportOptions> parse_export_options(int argc, char** argv) {
  const AppPointer app = make_app();
  ExportOptions options;
  add_export_options(*app, options);
  if (!parse_command_line(*app, argc, argv)) return std::nullopt;
  check_export_options(options);
  return options;
}

}  // namespace dtfm::cli
