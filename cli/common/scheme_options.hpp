// Options that say something of some schemes alone.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace dtfm::cli {

/// Throws Error for an option that was given though none of the schemes that are asked for takes it.
void check_scheme_options(const CLI::App& app, const std::vector<std::string>& requested);

}  // namespace dtfm::cli
