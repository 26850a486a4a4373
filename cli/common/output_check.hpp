// Checks before the work begins that the output files can be written, so that no result is lost.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/io/text/read_log.hpp"

namespace dtfm::cli {

/// Throws Error for an output that cannot be written, is one of the inputs or is the same file as another
/// output. Empty names are ignored.
void check_outputs(std::span<const std::string> inputs, std::span<const std::string> outputs);

/// Throws Error if the output exists and does not begin like a file of its kind, so that an input given by
/// mistake as an output is not overwritten. `begins_as_expected` gets the first characters, at least one;
/// `kind` is the name of the kind in the message: "plan".
void check_kind(const std::string& output, bool (*begins_as_expected)(const std::string& begin),
                std::string_view kind);
/// Whether the first character that is not white space is a brace, if there is one.
bool begins_as_json(const std::string& begin);

/// Returns whether an interrupt must wait until these outputs are written (InterruptHold): true if all are
/// regular files, which appear whole under their names. Writing to a pipe or a terminal may block forever, so
/// it must stay interruptible. Empty names are ignored.
bool must_be_atomic(std::span<const std::string> outputs);

}  // namespace dtfm::cli
