// The command line of dtfm-compare.
#pragma once

#include <optional>

#include "cli/compare/compare_options.hpp"

namespace CLI {
class App;
}

namespace dtfm::cli {

/// Sets up `app` for dtfm-compare: name, help texts and options. Parsing stores values in `options`, which
/// must outlive `app`.
void add_compare_options(CLI::App& app, CompareOptions& options);

/// Returns the options in the arguments of dtfm-compare, or nothing after --help or --version. Throws Error
/// for options that are invalid, missing or conflicting.
std::optional<CompareOptions> parse_compare_options(int argc, char** argv);

}  // namespace dtfm::cli
