// The programs that have a manual page and completions.
#pragma once

#include <vector>

#include "cli/documents/command_words.hpp"

namespace dtfm::cli {

std::vector<CommandWords> programs();

}  // namespace dtfm::cli
