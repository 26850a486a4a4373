// The command line of dtfm-compare.
#pragma once

#include <optional>

#include "cli/compare/compare_options.hpp"

namespace dtfm::cli {

/// Sets up `list` for dtfm-compare: name, help texts and options. Parsing stores values in `options`, which
/// must outlive `list`.
void add_compare_options(request::OptionList& list, CompareOptions& options);

/// Returns the options in the arguments of dtfm-compare, or nothing after --help or --version. Throws Error
/// for options that are invalid, missing or conflicting.
std::optional<CompareOptions> parse_compare_options(int argc, char** argv);

}  // namespace dtfm::cli
