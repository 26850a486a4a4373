// The command line of dtfm-compare.
#pragma once

#include "cli/compare/compare_options.hpp"

namespace CLI {
class App;
}

namespace dtfm::cli {

/// Description, examples and options. What is parsed goes into `options`, which must outlive `app`.
void add_compare_options(CLI::App& app, CompareOptions& options);

/// Throws Error where options that need each other are not all there.
void check_compare_options(const CLI::App& app, const CompareOptions& options);

}  // namespace dtfm::cli
