// The programs that have a manual page and completions.
#pragma once

#include <vector>

#include "cli/documents/command_description.hpp"

namespace dtfm::cli {

std::vector<CommandDescription> programs();

}  // namespace dtfm::cli
