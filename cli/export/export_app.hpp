// The command line of dtfm-export.
#pragma once

#include <string>
#include <string_view>

#include "cli/export/export_options.hpp"

namespace CLI {
class App;
}

namespace dtfm::cli {

/// Makes `app` that of dtfm-export: its name, what --help says, and all options, which go to `options`.
void add_export_options(CLI::App& app, ExportOptions& options);

/// The targets, a line each: name, trainer or launcher, and what it is. `margin` begins each line.
std::string format_targets(std::string_view margin = "");

/// Refuses options that lack others. Throws Error.
void check_export_options(const ExportOptions& options);

}  // namespace dtfm::cli
