// The command line of dtfm-compare.
#pragma once

#include "cli/compare/compare_options.hpp"

namespace CLI {
class App;
}

namespace dtfm::cli {

/// Sets up `app` for dtfm-compare: name, help texts and options. Parsing stores values in `options`, which
/// must outlive `app`.
void add_compare_options(CLI::App& app, CompareOptions& options);

/// Throws Error for a missing topology, an unknown scheme, and an option that no requested scheme uses.
void check_compare_options(const CLI::App& app, const CompareOptions& options);

}  // namespace dtfm::cli
