#include "cli/export/export_app.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/common/command_line.hpp"
#include "cli/common/parse_number.hpp"
#include "planner/export/exporter.hpp"
#include "planner/io/text/suggest.hpp"

namespace dtfm::cli {
namespace {

constexpr const char* examples = R"(Examples:
  dtfm-export plan.json --to megatron,torchrun -o handover
  dtfm-export plan.json --to flashflex,slurm --hosts machines.txt -o handover
  dtfm-export plan.json --to torchrun --agents host --order pipeline-major -o handover
  dtfm-export plan.json --to netem --topology worldwide.yaml -o network
  dtfm-export --list-targets

A trainer and launchers may be named together; then they agree on the order of ranks. rank_table.json, who is who,
and a README.md, how to start, are always written. What a target cannot express is refused, with nothing written;
what was written is read again and compared with the plan. A plan that needs more memory than devices have, as its
file estimates, is written all the same, with a note on stderr.

machines.txt says by what address each machine is reached, a line each:
  oregon/0   10.0.0.17        # as the plan calls it, and an address
  my desk    desk.example.org  # the last word is the address
Without it, a machine's address is its name, with - in place of /.

Exit codes: 0 done, 1 a bug of ours, 2 bad usage, bad input, or a plan that the target cannot express.)";

/// One of two words.
bool parse_choice(const char* option, const std::string& text, const char* first, const char* second) {
  if (text == first || text == second) return text == first;
  throw Error(option, fmt::format("unknown {}; {}", io::quote(text), io::suggestion(text, {first, second})));
}

void add_targets(const std::string& text, std::vector<std::string>& targets) {
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string name = text.substr(begin, end - begin);
    if (exporter::find_exporter(name).name == name && std::find(targets.begin(), targets.end(), name) == targets.end())
      targets.push_back(name);
    begin = end + 1;
  }
}

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const exporter::Exporter& exporter : exporter::exporters()) names.emplace_back(exporter.name);
  return names;
}

void add_input_options(CLI::App& app, ExportOptions& options) {
  app.add_option("PLAN", options.plan, "as dtfm-plan -o writes it (JSON)")->type_name("");
  CLI::Option* to = app.add_option_function<std::vector<std::string>>(
                           "--to",
                           [&](const std::vector<std::string>& words) {
                             for (const std::string& word : words) add_targets(word, options.targets);
                           },
                           "trainers and launchers, with commas or repeated; see --list-targets")
                        ->type_name("TARGET")
                        ->expected(1)
                        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  set_completion_values(*to, target_names());
  add_option(app, "-o,--output", "DIR", "where the files go; made if it is not there",
             [&](const std::string& text) { options.folder = text; });
  app.add_flag("--force", options.force,
               "writes into a DIR that holds other files, over those of the same names");
  app.add_flag("--list-targets", options.list_targets, "names the targets and exits");
  add_option(app, "--job", "FILE", "what is trained (YAML), in place of the job in the plan",
             [&](const std::string& text) { options.job = text; });
  add_option(app, "--topology", "FILE", "that the plan was made for (YAML); for netem",
             [&](const std::string& text) { options.topology = text; });
}

void add_launch_options(CLI::App& app, ExportOptions& options) {
  add_option(app, "--hosts", "FILE", "the addresses of the machines, a line `MACHINE ADDRESS` each",
             [&](const std::string& text) { options.hosts = text; });
  add_option(app, "--master", "MACHINE", "rank 0 shall be there: pipelines change places",
             [&](const std::string& text) { options.master = text; });
  add_option(app, "--order", "stage-major|pipeline-major", "of the ranks; the trainer's own when not given",
             [&](const std::string& text) {
               options.order = parse_choice("--order", text, "stage-major", "pipeline-major")
                                   ? exporter::RankOrder::stage_major
                                   : exporter::RankOrder::pipeline_major;
             });
  add_option(app, "--agents", "gpu|host", "of torchrun: one for each GPU, or for each machine (gpu)",
             [&](const std::string& text) {
               options.launch.agents = parse_choice("--agents", text, "gpu", "host") ? exporter::AgentPer::gpu : exporter::AgentPer::host;
             });
  add_option(app, "--port", "N", "on which rank 0 listens (29500)",
             [&](const std::string& text) { options.launch.port = parse_whole_number("--port", text, 1, 65535); });
  add_option(
      app, "--cores", "N", "CPU cores of a machine, all of which openmpi gives to each rank (16)",
      [&](const std::string& text) { options.launch.cores = parse_whole_number("--cores", text, 1, 65536); });
  app.add_flag("--any-gpu", options.launch.any_gpu, "for kubernetes: a rank may get any GPU of its machine");
  add_option(app, "--image", "NAME", "for kubernetes: the container (dtfm-trainer:latest)",
             [&](const std::string& text) { options.launch.image = text; });
  add_format_option(app, options.format);
  add_color_option(app, options.color);
  app.add_flag("--quiet", options.quiet, "prints nothing but errors and what to know");
  app.set_version_flag("--version", "dtfm-export " DTFM_VERSION);
}

}  // namespace

std::string format_targets(std::string_view margin) {
  std::string text;
  for (const exporter::Exporter& exporter : exporter::exporters())
    text += fmt::format("{}{:<14} {:<8} {}\n", margin, exporter.name,
                        exporter.is_trainer ? "trainer" : "launcher", exporter.what);
  return text;
}

void add_export_options(CLI::App& app, ExportOptions& options) {
  app.name("dtfm-export");
  app.description("Writes what existing trainers and launchers read, to run a plan.");
  app.footer(fmt::format("Targets:\n{}\n{}", format_targets("  "), examples));
  add_input_options(app, options);
  add_launch_options(app, options);
}

void check_export_options(const ExportOptions& options) {
  if (options.list_targets) return;
  if (options.plan.empty()) throw Error("", "PLAN is missing (see dtfm-export --help)");
  if (options.targets.empty())
    throw Error("--to", "is missing: which trainer or launcher? (see dtfm-export --list-targets)");
  if (options.folder == "-") throw Error("--output", "is a folder, and - is none");
  if (options.folder.empty()) throw Error("--output", "is missing: which folder do the files go to?");
}

}  // namespace dtfm::cli
