// The command line of dtfm-profile.
#pragma once

#include "cli/profile/profile_options.hpp"

namespace CLI {
class App;
}

namespace dtfm::cli {

/// Makes `app` that of dtfm-profile: its name, what --help says, and all options, which go to `options`.
void add_profile_options(CLI::App& app, ProfileOptions& options);

/// Refuses options that say nothing beside others, or lack others, and settles their mode. Throws Error.
void check_profile_options(const CLI::App& app, ProfileOptions& options);

}  // namespace dtfm::cli
