#include "cli/common/command_line.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "core/base/error.hpp"
#include "core/io/text/suggest.hpp"

namespace dtfm::cli {
namespace {

/// Returns the chosen subcommand, or the program if none was chosen.
const CLI::App& selected_command(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : *chosen.front();
}

struct RenamedOption {
  std::string_view old_name, new_name;
};

// A row can be deleted one release after the rename.
constexpr std::array renamed_options{
    RenamedOption{"--alike", "--uniform-pipelines"},
    RenamedOption{"--lying", "--faulty-peers"},
};

/// Returns the new name of the option that `app` used to call `word`; empty if there is none.
std::string_view renamed_option(const CLI::App& app, std::string_view word) {
  for (const RenamedOption& row : renamed_options)
    if (row.old_name == word && app.get_option_no_throw(std::string(row.new_name)) != nullptr)
      return row.new_name;
  return "";
}

/// Returns the valid options or subcommands, for suggestions.
std::vector<std::string> known_names(const CLI::App& app, bool is_option) {
  std::vector<std::string> names;
  if (is_option)
    for (const CLI::Option* option : app.get_options())
      for (const std::string& name : option->get_lnames()) names.emplace_back("--" + name);
  else
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
      names.push_back(command->get_name());
  return names;
}

/// Returns the message for the first unexpected argument, with a suggestion.
std::string unexpected_arguments(const CLI::App& program) {
  const CLI::App& app = selected_command(program);
  const std::vector<std::string> words = program.remaining(true);
  const std::string word = words.empty() ? "" : words.front();
  const std::string name = word.substr(0, word.find('='));
  if (const std::string_view new_name = renamed_option(app, name); !new_name.empty())
    return fmt::format("{} was renamed to {}", name, new_name);
  const std::string text = fmt::format("unexpected argument {}", io::quote(word));
  const std::vector<std::string> names = known_names(app, word.starts_with("--"));
  if (names.empty()) return text;
  return text + "; " + io::suggestion(name, {names.begin(), names.end()});
}

using request::OptionKind;

/// Values of one use of an option, or of all uses if it may be repeated.
void set(Option& option, const std::vector<std::string>& values) {
  option.given.push_back(values);
  option.set(values);
}

CLI::Option* add_value(CLI::App& app, Option& option) {
  using Pair = std::pair<std::string, std::string>;
  if (option.may_repeat)
    return app
        .add_option_function<std::vector<std::string>>(
            option.name,
            [&option](const std::vector<std::string>& values) {
              for (const std::string& value : values) set(option, {value});
            },
            option.help)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  if (option.values.find(' ') != std::string::npos)
    return app.add_option_function<Pair>(
        option.name,
        [&option](const Pair& pair) {
          set(option, {pair.first, pair.second});
        },
        option.help);
  return app.add_option_function<std::string>(
      option.name, [&option](const std::string& value) { set(option, {value}); }, option.help);
}

CLI::Option* add_argument(CLI::App& app, Option& option) {
  CLI::Option* added = nullptr;
  if (option.may_repeat)
    added = app.add_option_function<std::vector<std::string>>(
        option.name, [&option](const std::vector<std::string>& values) { set(option, values); }, option.help);
  else
    added = app.add_option_function<std::string>(
        option.name, [&option](const std::string& value) { set(option, {value}); }, option.help);
  return added->type_name("");
}

CLI::Option* add(CLI::App& app, const OptionList& list, Option& option) {
  switch (option.kind) {
    case OptionKind::argument:
      return add_argument(app, option);
    case OptionKind::flag:
      return app.add_flag_function(
          option.name,
          [&option](std::int64_t count) {
            if (count > 0) set(option, {});
          },
          option.help);
    case OptionKind::help:
      return app.set_help_flag(option.name, option.help);
    case OptionKind::version:
      return app.set_version_flag(option.name, list.version, option.help);
    case OptionKind::value:
      break;
  }
  return add_value(app, option)->type_name(option.values);
}

/// `list` must outlive `app`.
void add_all(CLI::App& app, OptionList& list) {
  app.name(list.name);
  app.description(list.description);
  app.footer(list.footer);
  for (Option& option : list.options) {
    app.option_defaults()->group(option.heading);
    add(app, list, option);
  }
  if (!list.commands.empty()) app.require_subcommand(0, 1);
  for (const auto& command : list.commands) {
    CLI::App& added = *app.add_subcommand(command->name, command->description);
    add_all(added, *command);
    added.callback(command->on_choice);
  }
}

}  // namespace

void add_format_option(OptionList& list, OutputFormat& format) {
  add_option(list, "--format", "text|json", "format of the printed result [text]",
             [&](const std::string& text) { format = parse_output_format("--format", text); });
}

void add_general_options(OptionList& list, ColorChoice& color, bool& quiet, const char* quiet_help,
                         const std::string& version) {
  begin_group(list, heading::general);
  add_color_option(list, color);
  add_flag(list, "--quiet", quiet_help, quiet);
  if (!version.empty()) add_version_option(list, version.c_str());
  add_help_option(list);
}

std::vector<std::string> common_options(const OptionList& list) {
  constexpr std::array individual = {"--threads", "--quiet", "--color", "--format", "--output"};
  std::vector<std::string> common;
  for (const Option& option : list.options) {
    const auto is_this = [&](const char* name) { return option.is_called(name); };
    if (std::any_of(individual.begin(), individual.end(), is_this)) continue;
    for (std::vector<std::string> values : option.given) {
      if (option.kind != OptionKind::argument)
        values.insert(values.begin(), fmt::format("--{}", option.long_name()));
      common.push_back(fmt::format("{}", fmt::join(values, " ")));
    }
  }
  return common;
}

bool parse_command_line(OptionList& list, int argc, char** argv) {
  CLI::App app;
  add_all(app, list);
  const auto complaint = [&](const std::string& what) {
    const CLI::App& command = selected_command(app);
    const std::string name = &command == &app ? "" : " " + command.get_name();
    return Error("", fmt::format("{} (see {}{} --help)", what, app.get_name(), name));
  };
  try {
    app.parse(argc, argv);
  } catch (const CLI::ExtrasError&) {
    throw complaint(unexpected_arguments(app));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) throw complaint(error.what());
    app.exit(error);  // prints what was asked for
    return false;
  }
  return true;
}

}  // namespace dtfm::cli
