// A bash script that completes a command line.
#pragma once

#include <string>

#include "cli/documents/command_description.hpp"

namespace dtfm::cli {

std::string bash_completion(const CommandDescription& program);

}  // namespace dtfm::cli
