#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/documents/completion.hpp"

namespace dtfm::cli {
namespace {

using Files = OptionDescription::Files;

std::string quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

/// Flags of `complete` for the value of an option (`-r`: requires a value, `-x`: a value that is not a file).
std::string value_part(const OptionDescription& option) {
  if (option.values.empty()) return "";
  if (!option.choices.empty()) return fmt::format(" -x -a '{}'", fmt::join(option.choices, " "));
  if (option.files == Files::folders) return " -x -a '(__fish_complete_directories)'";
  return option.files == Files::files ? " -r -F" : " -x";
}

std::string option_line(const std::string& begin, const OptionDescription& option) {
  std::string text = begin;
  for (const std::string& name : option.names)
    text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  return fmt::format("{}{} -d {}\n", text, value_part(option), quoted(option.help));
}

/// Completions of positional arguments: their values, or no files if there are none. By default, fish
/// completes files.
std::string positional_lines(const std::string& begin, const CommandDescription& command) {
  std::string text;
  for (const OptionDescription& positional : command.positionals)
    if (!positional.choices.empty())
      text += fmt::format("{} -f -a '{}' -d {}\n", begin, fmt::join(positional.choices, " "),
                          quoted(positional.help));
  return command.positionals.empty() && command.commands.empty() ? begin + " -f\n" : text;
}

/// The lines for `command`. `condition` holds if the preceding words lead to it; empty: always.
std::string lines(const std::string& program, const std::string& condition,
                  const CommandDescription& command) {
  const std::string begin =
      fmt::format("complete -c {}{}", program, condition.empty() ? "" : " -n " + quoted(condition));
  std::string text;
  for (const OptionDescription& option : command.options) text += option_line(begin, option);
  text += positional_lines(begin, command);
  std::vector<std::string> names;
  for (const CommandDescription& sub : command.commands) names.push_back(sub.name);
  const std::string also = condition.empty() ? "" : condition + "; and ";
  for (const CommandDescription& sub : command.commands) {
    const std::string none = fmt::format("{}not __fish_seen_subcommand_from {}", also, fmt::join(names, " "));
    text += fmt::format("complete -c {} -n {} -f -a {} -d {}\n", program, quoted(none), sub.name,
                        quoted(sub.description));
    text += lines(program, fmt::format("{}__fish_seen_subcommand_from {}", also, sub.name), sub);
  }
  return text;
}

}  // namespace

std::string fish_completion(const CommandDescription& program) {
  return fmt::format("# fish completion of {}, generated from its options\n{}", program.name,
                     lines(program.name, "", program));
}

}  // namespace dtfm::cli
