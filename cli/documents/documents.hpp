// Manual pages and shell completions.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "cli/documents/command_description.hpp"

namespace dtfm::cli {

/// The page of `program` (roff, section 1). Its section SEE ALSO lists the other `programs`.
std::string manual_page(const CommandDescription& program, std::span<const CommandDescription> programs);

/// A bash script that completes the command line of `program`.
std::string bash_completion(const CommandDescription& program);

/// Writes man/NAME.1 and bash/NAME for each program to `folder`, which is created if needed. Throws Error if
/// a file cannot be written.
void write_documents(std::span<const CommandDescription> programs, const std::filesystem::path& folder);

}  // namespace dtfm::cli
