// Reads a plan file into an ExportBundle.
#pragma once

#include <optional>
#include <string>

#include "planner/export/export_bundle.hpp"
#include "core/io/text/named_file.hpp"

namespace dtfm::exporter {

struct ExportChoices {
  RankOrder order = RankOrder::stage_major;
  LaunchSettings launch;
  std::optional<io::NamedFile> hosts;        // lines `MACHINE ADDRESS`
  std::optional<std::string> master;         // address or name of the machine for rank 0
  std::shared_ptr<const Topology> topology;  // for which the plan was made; null if not given
};

/// The plan in the text of a dtfm plan file, for `job` or else the job in the file. With `choices.master`, a
/// pipeline that begins on that machine is swapped to the front, so that rank 0 runs there. Throws Error as
/// PlanFile::standalone_plan and locate_gpus do, if there is no job, if no pipeline begins on the master, and if
/// the plan was made for another topology than `choices.topology`.
ExportBundle read_export_bundle(const io::NamedFile& plan, const std::optional<Job>& job,
                                const ExportChoices& choices);

}  // namespace dtfm::exporter
