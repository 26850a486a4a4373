// Task graphs as text, one statement a line (simulator/README.md has the language).
#pragma once

#include <cstddef>
#include <string>

#include "simulator/graph/task_graph.hpp"

namespace dtfm::io {

/// The largest file that is read, in bytes.
inline constexpr std::size_t max_graph_file_bytes = std::size_t{1} << 30;

/// Throws Error with file:line:column, what was expected and what was found.
sim::TaskGraph parse_task_graph(std::string text, const std::string& file);

}  // namespace dtfm::io
