// Declares options once, for every front end: on a command line `--micro-batch N`, in Python `micro_batch=N`.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/request/input.hpp"

namespace dtfm::request {

enum class OptionKind {
  argument,  // a value without a name, or any number of them if `may_repeat`
  flag,      // an option without a value
  value,     // an option with as many values as `values` has words
  help,      // prints the help and exits
  version    // prints the version and exits
};

struct Option {
  OptionKind kind = OptionKind::value;
  std::string name;         // "--pipeline", "-o,--output", or of an argument its placeholder: "TOPOLOGY"
  std::string values = {};  // placeholders: "N|auto", "PLAN PLAN"
  std::string help = {};
  std::string heading = {};  // of --help
  bool may_repeat = false;
  /// Values that a shell completes, in addition to the lower-case words of a placeholder such as `text|json`.
  /// Other values are still accepted.
  std::vector<std::string> choices = {};
  /// Checks and stores the values, as many as `values` has words; of a flag, none. Throws Error.
  std::function<void(const std::vector<std::string>&)> set = {};
  /// Of an option that names a file: what it may have instead (input.hpp), and what stores it.
  InputKind input = InputKind::none;
  std::function<void(const AnyInput&)> set_input = {};
  std::vector<std::vector<std::string>> given = {};  // the values that were set, one entry each time

  bool is_given() const { return !given.empty(); }
  /// Without dashes: "output".
  std::string_view long_name() const;
  bool is_called(std::string_view name_with_dashes) const;
};

/// The options of a program or of one of its subcommands.
struct OptionList {
  std::string name = {}, description = {}, footer = {};
  std::string version = {};  // printed by --version
  std::deque<Option> options = {};
  std::vector<std::unique_ptr<OptionList>> commands = {};  // at most one is chosen
  std::function<void()> on_choice = {};                    // of a subcommand
  std::string heading = {};                                // of the options that are added next

  Option* find(std::string_view name_with_dashes);
  const Option* find(std::string_view name_with_dashes) const;
};

/// Sets the name of a program and what --help prints before and after the options.
void set_texts(OptionList& list, const char* name, const char* description, const std::string& footer);

/// Adds a subcommand, whose `on_choice` is called if it is chosen. The result is valid as long as the list.
OptionList& add_command(OptionList& list, const char* name, const char* help, const char* footer,
                        const std::function<void()>& on_choice);

Option& add(OptionList& list, Option option);

/// The functions below return the added option, which is valid as long as the list. What they are given by
/// reference must outlive it.

/// A positional argument: a file name, a file that a request reads, or any number of names.
Option& add_argument(OptionList& list, const char* name, const char* help, std::string& value);
Option& add_argument(OptionList& list, const char* name, const char* help, std::vector<std::string>& values);

/// An option without a value. `is_given` tells whether it was given.
Option& add_flag(OptionList& list, const char* name, const char* help);
Option& add_flag(OptionList& list, const char* name, const char* help, bool& flag);

/// An option whose value `set` checks, so that all errors have the same form.
Option& add_option(OptionList& list, const char* name, const char* value, const std::string& help,
                   const std::function<void(const std::string&)>& set);
/// The same for an option with two values.
Option& add_pair_option(OptionList& list, const char* name, const char* values, const char* help,
                        const std::function<void(const std::string&, const std::string&)>& set);
/// The same for an option that may be repeated, with one value each time.
Option& add_repeatable_option(OptionList& list, const char* name, const char* value, const char* help,
                              const std::function<void(const std::string&)>& set);

template <class T>
Option& add_input_option(OptionList& list, const char* name, const char* value, const std::string& help,
                         bool may_repeat, const std::function<void(Input<T>)>& store) {
  Option option{.name = name, .values = value, .help = help, .may_repeat = may_repeat};
  option.kind = option.name.starts_with('-') ? OptionKind::value : OptionKind::argument;
  option.set = [store](const std::vector<std::string>& texts) { store(Input<T>(texts.at(0))); };
  option.input = input_kind<Input<T>>;
  option.set_input = [store](const AnyInput& input) { store(std::get<Input<T>>(input)); };
  return add(list, std::move(option));
}

/// An option that names a file, or an argument if its name has no dashes. `target`: an Input, an optional
/// one, or a vector of them for an option that may be repeated.
template <class T>
Option& add_input(OptionList& list, const char* name, const char* value, const std::string& help,
                  Input<T>& target) {
  return add_input_option<T>(list, name, value, help, false, [&](Input<T> it) { target = std::move(it); });
}
template <class T>
Option& add_input(OptionList& list, const char* name, const char* value, const std::string& help,
                  std::optional<Input<T>>& target) {
  return add_input_option<T>(list, name, value, help, false, [&](Input<T> it) { target = std::move(it); });
}
template <class T>
Option& add_input(OptionList& list, const char* name, const char* value, const std::string& help,
                  std::vector<Input<T>>& target) {
  return add_input_option<T>(list, name, value, help, true,
                             [&](Input<T> it) { target.push_back(std::move(it)); });
}

/// Sets the values that a shell completes.
void set_completion_values(Option& option, const std::vector<std::string>& values);
/// All values that a shell completes; empty if there are none.
std::vector<std::string> completion_values(const Option& option);

/// Headings of --help that several programs share.
namespace heading {
inline constexpr const char* inputs = "Inputs";
inline constexpr const char* parallelism = "Parallelism";
inline constexpr const char* schemes = "Schemes";
inline constexpr const char* search = "Search";
inline constexpr const char* simulation = "Simulation";
inline constexpr const char* given_plans = "Given plans";
inline constexpr const char* output = "Output";
inline constexpr const char* general = "General";
}  // namespace heading

/// Lists the options that are added after this call under a heading of --help.
void begin_group(OptionList& list, const char* heading);

/// Adds --threads, by default `cores`.
void add_threads_option(OptionList& list, int cores, int& threads);
void add_seed_option(OptionList& list, const char* help, std::uint64_t& seed);
/// Adds --version, which prints `line`.
void add_version_option(OptionList& list, const char* line);
/// Adds --help under the current heading.
void add_help_option(OptionList& list);

/// Whether the option, which must exist, was given.
bool is_given(const OptionList& list, std::string_view name);
/// Throws Error "OPTION: why" for the first of `options` that was given.
void reject_options(const OptionList& list, std::initializer_list<const char*> options,
                    const std::string& why);

}  // namespace dtfm::request
