// All documents of programs, as files.
#pragma once

#include <filesystem>
#include <span>

#include "cli/documents/command_description.hpp"

namespace dtfm::cli {

/// In `folder`, which is made: man/NAME.1, bash/NAME, zsh/_NAME and fish/NAME.fish of each. Throws Error.
void write_documents(std::span<const CommandDescription> programs, const std::filesystem::path& folder);

}  // namespace dtfm::cli
