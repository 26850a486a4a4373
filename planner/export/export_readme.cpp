#include "planner/export/export_readme.hpp"

#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "planner/export/export_requirements.hpp"
#include "core/io/text/suggest.hpp"

namespace dtfm::exporter {
namespace {

std::string format_shape(const ExportBundle& bundle) {
  std::set<std::string> splits;
  for (const Pipeline& pipeline : bundle.plan.pipelines) splits.insert(format_split(pipeline));
  return fmt::format("{} pipelines, layers {}", bundle.plan.pipelines.size(),
                     splits.size() == 1 ? *splits.begin() : fmt::format("{} and others", *splits.begin()));
}

std::string format_machines(const ExportBundle& bundle) {
  std::string text;
  for (const auto& [address, ranks] : ranks_by_address(bundle)) {
    std::vector<std::string> parts;
    for (const int rank : ranks)
      parts.push_back(fmt::format("{} on GPU {}", rank, bundle.location(rank).gpu));
    text += fmt::format("- `{}`: rank {}\n", address, fmt::join(parts, ", "));
  }
  return text;
}

}  // namespace

std::string export_readme(const ExportBundle& bundle, std::span<const Exporter* const> targets,
                          const ExportFiles& files, const std::vector<std::string>& notes) {
  const bool is_stage_major = bundle.order == RankOrder::stage_major;
  std::string text = fmt::format(
      "# Plan for job {}\n\n{} ranks, {}; {}. Rank 0, to which the others connect, is on `{}`, port {}.\n",
      io::quote(bundle.job.name), bundle.world_size(), format_shape(bundle),
      is_stage_major ? "ranks are numbered stage by stage (stage-major)"
                     : "ranks are numbered pipeline by pipeline (pipeline-major)",
      bundle.master(), bundle.launch.port);
  text +=
      "\nCopy this folder to the same path on every machine. In commands, MACHINE is the name under "
      "[Machines](#machines) of\nthe machine on which they run.\n";
  for (const Exporter* target : targets)
    text += fmt::format("\n## {}\n\n{}: {}\n\n{}\n", target->name,
                        target->is_trainer ? "Trainer" : "Launcher", target->what, target->usage);
  if (!notes.empty()) text += fmt::format("\n## Notes\n\n- {}\n", fmt::join(notes, "\n- "));
  text += "\n## Files\n\n";
  for (const ExportFile& file : files) text += fmt::format("- `{}`\n", file.name);
  return text + "\n## Machines\n\n" + format_machines(bundle);
}

}  // namespace dtfm::exporter
