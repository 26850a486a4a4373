#include "planner/export/torchrun_script.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "planner/export/export_requirements.hpp"
#include "planner/export/script_template.hpp"

namespace dtfm::exporter {

extern const std::string_view export_torchrun_checks_sh, export_torchrun_gpu_sh;  // of templates/

namespace {

/// What differs between the two scripts.
struct Script {
  std::string name, arguments;  // arguments: after MACHINE, for the usage
  int required = 1;             // number of arguments, with MACHINE
  std::string program;          // which precedes the arguments
  std::string environment;
};

/// Lines such as `  "0 gc 1"`: rank, machine, GPU.
std::string agents(const ExportBundle& bundle) {
  std::vector<std::string> lines;
  for (int rank = 0; rank < bundle.world_size(); ++rank)
    lines.push_back(
        fmt::format("  \"{} {} {}\"", rank, bundle.location(rank).address, bundle.location(rank).gpu));
  return fmt::format("{}", fmt::join(lines, "\n"));
}

ExportFile fill(const ExportBundle& bundle, const Script& script) {
  return {
      script.name,
      fill_template(export_torchrun_gpu_sh, {{"name", script.name},
                                             {"arguments", script.arguments},
                                             {"required", fmt::format("{}", script.required)},
                                             {"world", fmt::format("{}", bundle.world_size())},
                                             {"master", bundle.master()},
                                             {"port", fmt::format("{}", bundle.launch.port)},
                                             {"agents", agents(bundle)},
                                             {"checks", torchrun_checks(script.name) + script.environment},
                                             {"program", script.program}}),
      true};
}

/// Values that are already set are kept.
std::string environment(const ExportBundle& bundle) {
  // As torchrun does if it starts several processes.
  std::string text = "\nexport OMP_NUM_THREADS=${OMP_NUM_THREADS-1}";
  if (uses_nccl_rings(bundle))
    text += "\nexport NCCL_ALGO=${NCCL_ALGO-Ring} # as planned; NCCL might choose trees";
  return text;
}

}  // namespace

std::string torchrun_checks(std::string_view script) {
  std::string text = fill_template(export_torchrun_checks_sh, {{"name", std::string(script)}});
  text.pop_back();  // the last end of line is in the script
  return text.substr(text.find('\n') + 1);
}

ExportFile torchrun_script(const ExportBundle& bundle) {
  return fill(bundle, {"torchrun.sh", "PROGRAM ARGUMENT...", 2, "", ""});
}

ExportFile start_script(const ExportBundle& bundle) {
  return fill(bundle, {start_file, "[OPTION...] # of train.py", 1,
                       "\"$(dirname \"${BASH_SOURCE[0]}\")/train.py\"", environment(bundle)});
}

void read_torchrun_script(const std::string& script, std::vector<RankRow>& rows) {
  const std::vector<std::string> lines = table_lines(script, "agents=(");
  DTFM_ASSERT(lines.size() == rows.size());
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    const auto words = split_words(lines[rank]);
    DTFM_ASSERT(words.size() == 3 && parse_number(words[0]) == static_cast<int>(rank));
    rows[rank].address = words[1];
    rows[rank].gpu = parse_number(words[2]);
  }
}

}  // namespace dtfm::exporter
