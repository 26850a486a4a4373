// README.md of a folder that a plan was handed over in.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "planner/export/exporter.hpp"

namespace dtfm::exporter {

/// What the plan is, what the files are for and how to start, and what to know.
std::string export_readme(const ExportBundle& bundle, std::span<const Exporter* const> targets,
                          const ExportFiles& files, const std::vector<std::string>& notes);

}  // namespace dtfm::exporter
