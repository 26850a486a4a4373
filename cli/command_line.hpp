// What the command lines of all programs have in common.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace dtfm {

/// An option whose value is checked by us, so that all errors speak alike.
void add_option(CLI::App& app, const char* name, const char* value, const char* help,
                const std::function<void(const std::string&)>& set);

/// The exit code where all is said (--help, --version); nothing: the program goes on. Throws Error for what
/// the options do not allow, with what the user may have meant.
std::optional<int> parse_command_line(CLI::App& app, int argc, char** argv);

/// As many as this machine runs at once.
int all_threads();

}  // namespace dtfm
