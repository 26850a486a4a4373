// Work that several processes do together, from the view of one of them. Null stands for the only process.
#pragma once

#include <optional>
#include <string>

#include "planner/core/ranks.hpp"
#include "planner/io/text/read_log.hpp"

namespace dtfm::cli {

/// The root alone prints and writes files.
inline bool is_root(const Ranks* ranks) {
  return !ranks || ranks->is_root();
}

/// Throws Error unless all ranks have read the same files. Pipes, which can be read only once, are not
/// compared.
void check_same_input(Ranks* ranks, const io::ReadLog& read);

/// After an interrupt or the loss of a rank, whether this rank has to write `output` in place of the root,
/// which seems to be the lost one: true on rank 1 if the root leaves the file unchanged for 0.4 s, which is
/// less than the time that launchers grant.
bool replaces_root(const Ranks* ranks, const std::optional<std::string>& output);

/// Ends the common work, of which nothing is left. Returns whether this process continues: whether it is the
/// root. Unless `quiet`, says on stderr how much was exchanged.
bool continues_alone(Ranks* ranks, bool quiet);

}  // namespace dtfm::cli
