// The command line of dtfm-export.
#pragma once

#include <string>
#include <string_view>

#include "cli/export/export_options.hpp"

namespace CLI {
class App;
}

namespace dtfm::cli {

/// Sets up `app` for dtfm-export: name, help texts and options. Parsing stores values in `options`, which
/// must outlive `app`.
void add_export_options(CLI::App& app, ExportOptions& options);

/// The targets, one per line: name, trainer or launcher, and description. `margin` is prepended to each line.
std::string format_targets(std::string_view margin = "");

/// Throws Error if a required option or argument is missing.
void check_export_options(const ExportOptions& options);

}  // namespace dtfm::cli
