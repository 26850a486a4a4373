#include "cli/documents/command_description.hpp"

#include <algorithm>
#include <stdexcept>
#include <string_view>

#include "core/io/text/split.hpp"

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

using request::Option;
using request::OptionKind;

/// The words of `text` between separators; none if it is empty.
std::vector<std::string> words_of(const std::string& text, char separator) {
  if (text.empty()) return {};
  const std::vector<std::string_view> words = io::split(text, separator);
  return {words.begin(), words.end()};
}

OptionDescription describe(const Option& option) {
  OptionDescription words;
  words.names = words_of(option.name, ',');
  words.values = words_of(option.values, ' ');
  words.group = option.heading;
  words.help = on_one_line(option.help);
  words.choices = completion_values(option);
  std::for_each(words.choices.begin(), words.choices.end(), check_choice);
  words.files = file_kind(words.values.empty() ? words.names.front() : words.values.front());
  words.may_repeat = option.may_repeat;
  return words;
}

}  // namespace

CommandDescription describe(const request::OptionList& list) {
  CommandDescription words{list.name, on_one_line(list.description), list.footer, {}, {}, {}};
  for (const Option& option : list.options)
    (option.kind == OptionKind::argument ? words.positionals : words.options).push_back(describe(option));
  for (const auto& command : list.commands) words.commands.push_back(describe(*command));
  return words;
}

}  // namespace dtfm::cli
