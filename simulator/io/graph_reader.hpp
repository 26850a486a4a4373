// Reads task graphs from text with one statement per line (docs/files/task-graph.md).
#pragma once

#include <cstddef>
#include <string>

#include "simulator/graph/task_graph.hpp"

namespace dtfm::io {

/// Maximum size of a graph file.
inline constexpr std::size_t max_graph_file_bytes = std::size_t{1} << 30;

/// Throws Error with file:line:column that says what was expected and what was found.
sim::TaskGraph parse_task_graph(std::string text, const std::string& file);

}  // namespace dtfm::io
