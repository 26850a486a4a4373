// Options that apply to some schemes only.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace dtfm::cli {

/// Adds --sync-every, --skip, --verify and --faulty-peers, which set the given variables.
void add_scheme_parameter_options(CLI::App& app, std::optional<int>& sync_every, double& skip, double& verify,
                                  double& faulty_share);

/// Throws Error for an option that none of the `requested` schemes uses.
void check_scheme_options(const CLI::App& app, const std::vector<std::string>& requested);

}  // namespace dtfm::cli
