// Options that apply to some schemes only.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace dtfm::cli {

/// Throws Error if an option was given that none of the requested schemes has.
void check_scheme_options(const CLI::App& app, const std::vector<std::string>& requested);

}  // namespace dtfm::cli
