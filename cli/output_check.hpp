// Whether the files to write may be written, found before the work begins, so that none of it is lost.
#pragma once

#include <span>
#include <string>

namespace dtfm {

/// Throws Error for an output that cannot be written, is one of the inputs or is the same file as another
/// output. Empty names stand for none.
void check_outputs(std::span<const std::string> inputs, std::span<const std::string> outputs);

/// Whether writing these must not be broken off (InterruptHold): all become whole files by a new name. What a
/// pipe or a terminal takes may wait for its reader for ever. Empty names stand for none.
bool must_be_whole(std::span<const std::string> outputs);

}  // namespace dtfm
