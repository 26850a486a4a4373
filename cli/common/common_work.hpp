// Work that is distributed across several processes (ranks). `ranks` is null if there is only one process.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/work.hpp"
#include "core/io/text/read_log.hpp"

namespace dtfm::cli {

/// The root alone prints and writes files.
inline bool is_root(const Ranks* ranks) {
  return !ranks || ranks->is_root();
}

/// Throws Error unless all ranks have the same `options` and have read the same files. Pipes, which can be
/// read only once, are not compared.
void check_same_input(const Work& work, const std::vector<std::string>& options, const io::ReadLog& read);

/// Whether this rank has to write `output` in place of the root, after an interrupt or the loss of a rank.
/// True on rank 1 if the file stays unchanged for 0.4 s, so that the root seems to be lost. Launchers grant
/// more time than that.
bool replaces_root(const Ranks* ranks, const std::optional<std::string>& output);

/// Ends the distributed work. Returns whether this process continues, which only the root does. Unless
/// `quiet`, prints on stderr how much was communicated.
bool continues_alone(Ranks* ranks, bool quiet);

}  // namespace dtfm::cli
