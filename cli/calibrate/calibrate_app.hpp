// The command line of dtfm-calibrate.
#pragma once

#include <optional>

#include "cli/calibrate/calibrate_options.hpp"
#include "planner/request/option_list.hpp"

namespace dtfm::cli {

/// Sets up `list` for dtfm-calibrate: name, help texts and options. Parsing stores values in `options`, which
/// must outlive `list`.
void add_calibrate_options(request::OptionList& list, CalibrateOptions& options);

/// Returns the options in the arguments of dtfm-calibrate, or nothing after --help or --version. Throws Error
/// for options that are invalid, missing or conflicting.
std::optional<CalibrateOptions> parse_calibrate_options(int argc, char** argv);

}  // namespace dtfm::cli
