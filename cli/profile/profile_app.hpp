// The command line of dtfm-profile.
#pragma once

#include "cli/profile/profile_options.hpp"

namespace CLI {
class App;
}

namespace dtfm::cli {

/// Sets up `app` for dtfm-profile: name, help texts and options. Parsing stores values in `options`, which
/// must outlive `app`.
void add_profile_options(CLI::App& app, ProfileOptions& options);

/// Sets options.mode. Throws Error for options that cannot be combined and for missing ones.
void check_profile_options(const CLI::App& app, ProfileOptions& options);

}  // namespace dtfm::cli
