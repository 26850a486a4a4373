// Writes manual pages and completions to files.
#pragma once

#include <filesystem>
#include <span>

#include "cli/documents/command_description.hpp"

namespace dtfm::cli {

/// Writes man/NAME.1 and bash/NAME for each program to `folder`, which is created if needed. Throws Error if
/// a file cannot be written.
void write_documents(std::span<const CommandDescription> programs, const std::filesystem::path& folder);

}  // namespace dtfm::cli
