// Whether the files to write may be written, found before the work begins, so that none of it is lost.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "planner/io/text/read_log.hpp"

namespace dtfm::cli {

/// Throws Error for an output that cannot be written, is one of the inputs or is the same file as another
/// output. Empty names stand for none.
void check_outputs(std::span<const std::string> inputs, std::span<const std::string> outputs);

/// Throws Error for an output that was read: the inputs may name files that the command line does not. To be
/// called when all is read, before the work begins. Empty names stand for none.
void check_not_read(const io::ReadLog& read, std::span<const std::string> outputs);

/// Throws Error where there is a file already that begins otherwise than ours do: matrices and other people's
/// files, mistaken for an output, are not overwritten. `begins_as_expected` sees the first characters, at
/// least one; `kind`: "plan".
void check_kind(const std::string& output, bool (*begins_as_expected)(const std::string& begin),
                std::string_view kind);
/// The first that is no blank is a brace.
bool begins_as_json(const std::string& begin);

/// Returns whether an interrupt must wait until these outputs are written (InterruptHold): true if all are
/// regular files, which appear whole under their names. Writing to a pipe or a terminal may block forever, so
/// it must stay interruptible. Empty names are ignored.
bool must_be_atomic(std::span<const std::string> outputs);

}  // namespace dtfm::cli
