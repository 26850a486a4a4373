// The command line of dtfm-export.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cli/export/export_options.hpp"

namespace dtfm::cli {

/// Sets up `list` for dtfm-export: name, help texts and options. Parsing stores values in `options`, which
/// must outlive `list`.
void add_export_options(request::OptionList& list, ExportOptions& options);

/// The targets, one per line: name, trainer or launcher, and description. `margin` is prepended to each line.
std::string format_targets(std::string_view margin = "");

/// Returns the options in the arguments of dtfm-export, or nothing after --help or --version. Throws Error
/// for options that are invalid, missing or conflicting.
std::optional<ExportOptions> parse_export_options(int argc, char** argv);

}  // namespace dtfm::cli
