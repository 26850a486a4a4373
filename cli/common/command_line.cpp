#include "cli/common/command_line.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "cli/common/launcher.hpp"
#include "cli/common/parse_number.hpp"
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

// CLI11 options cannot carry user data. The completion values are therefore stored in the name of a validator
// that accepts every value.
constexpr std::string_view completion_prefix = "values: ";

std::string find_completion_values(CLI::Option& option) {
  try {
    for (int i = 0;; ++i)
      if (const std::string name = option.get_validator(i)->get_name(); name.starts_with(completion_prefix))
        return name.substr(completion_prefix.size());
  } catch (const CLI::OptionNotFound&) {
    return "";
  }
}

bool is_capital(char c) {
  return c >= 'A' && c <= 'Z';
}

}  // namespace

void DeleteApp::operator()(CLI::App* app) const {
  delete app;
}

AppPointer make_app() {
  return AppPointer(new CLI::App);
}

void set_texts(CLI::App& app, const char* name, const char* description, const std::string& footer) {
  app.name(name);
  app.description(description);
  app.footer(footer);
}

CLI::App& add_command(CLI::App& app, const char* name, const char* help, const char* footer,
                      const std::function<void()>& on_choice) {
  app.require_subcommand(0, 1);
  CLI::App& command = *app.add_subcommand(name, help);
  command.footer(footer);
  command.callback(on_choice);
  return command;
}

CLI::Option* add_argument(CLI::App& app, const char* name, const char* help, std::string& value) {
  return app.add_option(name, value, help)->type_name("");
}

CLI::Option* add_argument(CLI::App& app, const char* name, const char* help,
                          std::vector<std::string>& values) {
  return app.add_option(name, values, help)->type_name("");
}

void add_flag(CLI::App& app, const char* name, const char* help) {
  app.add_flag(name)->description(help);
}

void add_flag(CLI::App& app, const char* name, const char* help, bool& flag) {
  app.add_flag(name, flag, help);
}

bool is_given(const CLI::App& app, const char* name) {
  return app.count(name) > 0;
}

void add_pair_option(CLI::App& app, const char* name, const char* values, const char* help,
                     const std::function<void(const std::string&, const std::string&)>& set) {
  using Pair = std::pair<std::string, std::string>;
  app.add_option_function<Pair>(
         name, [set](const Pair& pair) { set(pair.first, pair.second); }, help)
      ->type_name(values);
}

CLI::Option* add_option(CLI::App& app, const char* name, const char* value, const std::string& help,
                        const std::function<void(const std::string&)>& set) {
  return app.add_option_function<std::string>(name, set, help)->type_name(value);
}

CLI::Option* add_repeatable_option(CLI::App& app, const char* name, const char* value, const char* help,
                                   const std::function<void(const std::string&)>& set) {
  return app
      .add_option_function<std::vector<std::string>>(
          name,
          [set](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) set(text);
          },
          help)
      ->type_name(value)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void set_completion_values(CLI::Option& option, const std::vector<std::string>& values) {
  const auto anything = [](const std::string&) { return std::string(); };
  option.check(CLI::Validator(anything, ""), fmt::format("{}{}", completion_prefix, fmt::join(values, "|")));
}

std::vector<std::string> completion_values(CLI::Option& option) {
  std::vector<std::string> values;
  for (const std::string& word : CLI::detail::split(option.get_type_name(), '|'))
    if (!word.empty() && std::none_of(word.begin(), word.end(), is_capital)) values.push_back(word);
  for (const std::string& word : CLI::detail::split(find_completion_values(option), '|'))
    if (!word.empty()) values.push_back(word);
  return values;
}

void begin_group(CLI::App& app, const char* heading) {
  app.option_defaults()->group(heading);
}

void add_format_option(CLI::App& app, OutputFormat& format) {
  add_option(app, "--format", "text|json", "format of the printed result [text]",
             [&](const std::string& text) { format = parse_output_format("--format", text); });
}

void add_threads_option(CLI::App& app, int& threads) {
  constexpr int max_threads = 1024;
  threads = std::min(available_cores(), max_threads);
  add_option(
      app, "--threads", "N", "number of threads, which does not change the result [all cores]",
      [&](const std::string& text) { threads = parse_whole_number("--threads", text, 1, max_threads); });
}

void add_seed_option(CLI::App& app, const char* help, std::uint64_t& seed) {
  add_option(app, "--seed", "N", help, [&](const std::string& text) {
    seed = parse_whole_number<std::uint64_t>("--seed", text, 0, std::numeric_limits<std::uint64_t>::max());
  });
}

void add_version_option(CLI::App& app, const char* line) {
  app.set_version_flag("--version", line, "prints the version and exits");
}

void add_help_option(CLI::App& app) {
  app.set_help_flag("-h,--help", "prints this help and exits");
}

void reject_options(const CLI::App& app, std::initializer_list<const char*> options, const std::string& why) {
  for (const char* option : options)
    if (is_given(app, option)) throw Error(option, why);
}

std::vector<std::string> common_options(const CLI::App& app) {
  constexpr std::array individual = {"--threads", "--quiet", "--color", "--format", "--output"};
  std::vector<std::string> common;
  for (const CLI::Option* option : app.get_options()) {
    const auto is_this = [&](const char* name) { return option->check_name(name); };
    if (option->count() == 0 || std::any_of(individual.begin(), individual.end(), is_this)) continue;
    std::vector<std::string> words;
    if (!option->get_positional()) words.push_back(option->get_name());
    const bool is_flag = option->get_items_expected_max() == 0;
    if (!is_flag) words.insert(words.end(), option->results().begin(), option->results().end());
    common.push_back(CLI::detail::join(words, " "));
  }
  return common;
}

bool parse_command_line(CLI::App& app, int argc, char** argv) {
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
