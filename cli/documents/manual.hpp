// Manual pages (roff, section 1).
#pragma once

#include <span>
#include <string>

#include "cli/documents/command_words.hpp"

namespace dtfm::cli {

/// The page of `program`, which refers to all of `programs`.
std::string manual_page(const CommandWords& program, std::span<const CommandWords> programs);

}  // namespace dtfm::cli
