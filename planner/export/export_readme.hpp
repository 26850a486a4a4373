// README.md of an export folder.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "planner/export/exporter.hpp"

namespace dtfm::exporter {

/// Markdown text: a summary of the plan, how to use each target, the `notes`, the files and the machines.
std::string export_readme(const ExportBundle& bundle, std::span<const Exporter* const> targets,
                          const ExportFiles& files, const std::vector<std::string>& notes);

}  // namespace dtfm::exporter
