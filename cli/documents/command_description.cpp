#include "cli/documents/command_description.hpp"

#include <algorithm>
#include <stdexcept>
#include <string_view>

#include <CLI/CLI.hpp>

#include "cli/common/command_line.hpp"

namespace dtfm::cli {
namespace {

using Files = OptionDescription::Files;

/// Whether the placeholder of a value stands for a file, a folder or neither.
Files file_kind(const std::string& word) {
  for (const char* known : {"FILE", "PLAN", "TOPOLOGY", "JOB", "SCENARIO", "PROFILE"})
    if (word == known || word.starts_with(std::string(known) + '.')) return Files::files;
  if (word.find('.') != std::string::npos) return Files::files;  // RUNS.csv
  return word == "DIR" || word == "FOLDER" ? Files::folders : Files::none;
}

/// Throws std::logic_error for a choice that would need quoting: choices are inserted into shell scripts as
/// is.
void check_choice(const std::string& choice) {
  constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._+";
  if (choice.empty() || choice.find_first_not_of(allowed) != std::string::npos)
    throw std::logic_error("not a word for a shell: " + choice);
}

std::string on_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

OptionDescription describe(CLI::Option& option) {
  OptionDescription words;
  for (const std::string& name : option.get_snames()) words.names.emplace_back("-" + name);
  for (const std::string& name : option.get_lnames()) words.names.emplace_back("--" + name);
  if (option.get_positional()) words.names = {option.get_name()};
  if (option.get_type_size() != 0 && !option.get_type_name().empty())
    words.values = CLI::detail::split(option.get_type_name(), ' ');
  words.group = option.get_group();
  words.help = on_one_line(option.get_description());
  words.choices = completion_values(option);
  std::for_each(words.choices.begin(), words.choices.end(), check_choice);
  words.files = file_kind(words.values.empty() ? words.names.front() : words.values.front());
  words.is_required = option.get_required();
  words.may_repeat = option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll ||
                     (option.get_positional() && option.get_items_expected_max() > 1);
  return words;
}

}  // namespace

CommandDescription describe(CLI::App& app) {
  CommandDescription words{app.get_name(), on_one_line(app.get_description()), app.get_footer(), {}, {}, {}};
  for (CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    (option->get_positional() ? words.positionals : words.options).push_back(describe(*option));
  }
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; }))
    words.commands.push_back(describe(*command));
  for (CommandDescription& command : words.commands)
    if (command.footer == words.footer) command.footer.clear();  // CLI11 copies the footer of the parent
  return words;
}

}  // namespace dtfm::cli
