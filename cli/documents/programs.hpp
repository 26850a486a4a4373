// The programs that have a manual page and completions.
#pragma once

#include <vector>

#include "cli/documents/command_words.hpp"

namespace dtfm {

std::vector<CommandWords> programs();

}  // namespace dtfm
