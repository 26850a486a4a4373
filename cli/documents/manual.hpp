// Manual pages (roff, section 1).
#pragma once

#include <span>
#include <string>

#include "cli/documents/command_description.hpp"

namespace dtfm::cli {

/// The page of `program`. Its section SEE ALSO lists the other `programs`.
std::string manual_page(const CommandDescription& program, std::span<const CommandDescription> programs);

}  // namespace dtfm::cli
