// Scripts that complete a command line, for three shells.
#pragma once

#include <string>

#include "cli/documents/command_description.hpp"

namespace dtfm::cli {

std::string bash_completion(const CommandDescription& program);
std::string zsh_completion(const CommandDescription& program);
std::string fish_completion(const CommandDescription& program);

/// "dtfm-plan" → "dtfm_plan", as names of functions are written.
std::string as_identifier(const std::string& name);

}  // namespace dtfm::cli
