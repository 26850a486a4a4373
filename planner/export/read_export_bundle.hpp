// A plan file as something to hand over.
#pragma once

#include <optional>
#include <string>

#include "planner/export/export_bundle.hpp"
#include "planner/io/text/named_file.hpp"

namespace dtfm::exporter {

struct ExportChoices {
  RankOrder order = RankOrder::stage_major;
  LaunchSettings launch;
  std::optional<io::NamedFile> hosts;            // MACHINE ADDRESS, a line each
  std::optional<std::string> master;         // address or name of the machine that rank 0 shall be on
  std::shared_ptr<const Topology> topology;  // that the plan was made for, if it is there
};

/// The plan in the text of a plan file of ours, for `job`, or the one that the file is for. With
/// `choices.master` pipelines change places so that the device of rank 0 is on that machine. Throws Error as
/// parse_standalone_plan and locate_gpus do, for a file that says no job where none is given, and where no pipeline
/// begins on the master, and for a plan of another topology than `choices.topology`.
ExportBundle read_export_bundle(const io::NamedFile& plan, const std::optional<Job>& job, const ExportChoices& choices);

}  // namespace dtfm::exporter
