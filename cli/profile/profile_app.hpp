// The command line of dtfm-profile.
#pragma once

#include <optional>

#include "cli/profile/profile_options.hpp"
#include "planner/request/option_list.hpp"

namespace dtfm::cli {

/// Sets up `list` for dtfm-profile: name, help texts and options. Parsing stores values in `options`, which
/// must outlive `list`.
void add_profile_options(request::OptionList& list, ProfileOptions& options);

/// Returns the options in the arguments of dtfm-profile, or nothing after --help or --version. Throws Error
/// for options that are invalid, missing or conflicting.
std::optional<ProfileOptions> parse_profile_options(int argc, char** argv);

}  // namespace dtfm::cli
