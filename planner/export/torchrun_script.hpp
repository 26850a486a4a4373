// The scripts that start the ranks of a machine with torchrun: torchrun.sh, and start.sh of exports to
// trainers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/export/exporter.hpp"

namespace dtfm::exporter {

inline constexpr const char* start_file = "start.sh";

/// Commands of a script that check, within seconds, what torchrun would fail on after minutes.
std::string torchrun_checks(std::string_view script);

/// torchrun.sh with one agent per GPU, which starts any program.
ExportFile torchrun_script(const ExportBundle& bundle);

/// start.sh, which starts train.py with one agent per GPU.
ExportFile start_script(const ExportBundle& bundle);

/// The rows with the machines and GPUs of one of these scripts. As in torchrun, the ranks of the processes
/// are numbered consecutively in the order of the agents.
void read_torchrun_script(const std::string& script, std::vector<RankRow>& rows);

}  // namespace dtfm::exporter
