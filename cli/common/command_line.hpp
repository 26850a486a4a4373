// Options and parsing that the command lines of all programs share.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "cli/common/output_format.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace dtfm::cli {

/// CLI11 is a large header. Only the files that need more of it than the functions below include it, so that
/// the other files compile faster.
struct DeleteApp {
  void operator()(CLI::App* app) const;
};
using AppPointer = std::unique_ptr<CLI::App, DeleteApp>;
AppPointer make_app();

/// Sets the name of a program and what --help prints before and after the options.
void set_texts(CLI::App& app, const char* name, const char* description, const std::string& footer);

/// Adds a subcommand. At most one can be chosen; its `on_choice` is called.
CLI::App& add_command(CLI::App& app, const char* name, const char* help, const char* footer,
                      const std::function<void()>& on_choice);

/// Adds a positional argument: one, or any number.
CLI::Option* add_argument(CLI::App& app, const char* name, const char* help, std::string& value);
CLI::Option* add_argument(CLI::App& app, const char* name, const char* help,
                          std::vector<std::string>& values);

/// Adds an option without a value. `is_given` tells whether it was given.
void add_flag(CLI::App& app, const char* name, const char* help);
void add_flag(CLI::App& app, const char* name, const char* help, bool& flag);

bool is_given(const CLI::App& app, const char* name);

/// Adds an option whose value `set` checks, so that all errors have the same form.
CLI::Option* add_option(CLI::App& app, const char* name, const char* value, const std::string& help,
                        const std::function<void(const std::string&)>& set);

/// The same for an option with two values.
void add_pair_option(CLI::App& app, const char* name, const char* values, const char* help,
                     const std::function<void(const std::string&, const std::string&)>& set);

/// The same for an option that may be repeated, with one value each time.
CLI::Option* add_repeatable_option(CLI::App& app, const char* name, const char* value, const char* help,
                                   const std::function<void(const std::string&)>& set);

/// Sets the values that a shell completes for `option`, in addition to the lower-case words of a placeholder
/// such as `text|json`. Other values are still accepted.
void set_completion_values(CLI::Option& option, const std::vector<std::string>& values);
/// Returns the values that a shell completes, including those of the placeholder; empty if there are none.
std::vector<std::string> completion_values(CLI::Option& option);

/// Headings of --help that several programs share.
namespace heading {
inline constexpr const char* inputs = "Inputs";
inline constexpr const char* parallelism = "Parallelism";
inline constexpr const char* schemes = "Schemes";
inline constexpr const char* search = "Search";
inline constexpr const char* simulation = "Simulation";
inline constexpr const char* output = "Output";
inline constexpr const char* general = "General";
}  // namespace heading

/// Lists the options that are added after this call under a heading of --help.
void begin_group(CLI::App& app, const char* heading);

/// Adds --format, the format of the printed result.
void add_format_option(CLI::App& app, OutputFormat& format);
/// Adds --threads, by default the number of cores.
void add_threads_option(CLI::App& app, int& threads);
void add_seed_option(CLI::App& app, const char* help, std::uint64_t& seed);
/// Adds --version, which prints `line`.
void add_version_option(CLI::App& app, const char* line);
/// Adds --help under the current heading. Without this call, CLI11 lists it first.
void add_help_option(CLI::App& app);

/// Throws Error "OPTION: why" for the first of `options` that was given.
void reject_options(const CLI::App& app, std::initializer_list<const char*> options, const std::string& why);

/// Returns the given options and arguments with their values, except those that may differ between ranks,
/// because they affect only speed and output.
std::vector<std::string> common_options(const CLI::App& app);

/// Returns false after --help or --version. Throws Error for invalid options, with a suggestion if there is a
/// similar valid one.
bool parse_command_line(CLI::App& app, int argc, char** argv);

}  // namespace dtfm::cli
