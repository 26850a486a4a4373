// The command line of dtfm-export.
#pragma once

#include "cli/export_options.hpp"

namespace CLI {
class App;
}

namespace dtfm {

/// Makes `app` that of dtfm-export: its name, what --help says, and all options, which go to `options`.
void add_export_options(CLI::App& app, ExportOptions& options);

/// Refuses options that lack others. Throws Error.
void check_export_options(const ExportOptions& options);

}  // namespace dtfm
