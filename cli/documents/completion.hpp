// Shell scripts that complete a command line.
#pragma once

#include <string>

#include "cli/documents/command_description.hpp"

namespace dtfm::cli {

std::string bash_completion(const CommandDescription& program);
std::string zsh_completion(const CommandDescription& program);
std::string fish_completion(const CommandDescription& program);

/// A name for shell functions: "dtfm_plan" for "dtfm-plan".
std::string as_identifier(const std::string& name);

}  // namespace dtfm::cli
