#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/documents/documents.hpp"

namespace dtfm::cli {
namespace {

using Files = OptionDescription::Files;

// Readline's own file completion, because only it quotes file names correctly. compopt fails outside of a
// completion, so its error is discarded.
constexpr const char* file_names = "compopt -o default 2>/dev/null";

/// Branches of the script's case statements.
struct Cases {
  std::string commands, values, words;
};

std::string word_list_reply(const std::string& words) {
  return fmt::format("mapfile -t COMPREPLY < <(compgen -W '{}' -- \"$cur\")", words);
}

std::string reply(const OptionDescription& option) {
  if (!option.choices.empty()) return word_list_reply(fmt::format("{}", fmt::join(option.choices, " ")));
  if (option.files == Files::folders) return "compopt -o dirnames 2>/dev/null";
  return option.files == Files::files ? file_names : ":";
}

std::string value_case(const std::string& path, const OptionDescription& option) {
  std::vector<std::string> patterns;
  for (const std::string& name : option.names) patterns.push_back(fmt::format("'{} {}'", path, name));
  return fmt::format("    {}) {}; return ;;\n", fmt::join(patterns, " | "), reply(option));
}

/// Completions of a word that is not an option: subcommands, values of positional arguments, files.
std::string positional_case(const std::string& path, const CommandDescription& command) {
  std::vector<std::string> words;
  for (const CommandDescription& sub : command.commands) words.push_back(sub.name);
  bool is_file = false;
  for (const OptionDescription& positional : command.positionals) {
    words.insert(words.end(), positional.choices.begin(), positional.choices.end());
    is_file = is_file || positional.files == Files::files;
  }
  std::vector<std::string> replies;
  if (!words.empty()) replies.push_back(word_list_reply(fmt::format("{}", fmt::join(words, " "))));
  if (is_file) replies.push_back(file_names);
  return replies.empty() ? "" : fmt::format("    '{}:'*) {} ;;\n", path, fmt::join(replies, "; "));
}

/// `path` is the program name with the subcommands that lead to `command`.
void add_cases(const std::string& path, const CommandDescription& command, Cases& cases) {
  std::vector<std::string> names;
  for (const OptionDescription& option : command.options) {
    names.insert(names.end(), option.names.begin(), option.names.end());
    if (!option.values.empty()) cases.values += value_case(path, option);
  }
  cases.words +=
      fmt::format("    '{}:-'*) {} ;;\n", path, word_list_reply(fmt::format("{}", fmt::join(names, " "))));
  cases.words += positional_case(path, command);
  for (const CommandDescription& sub : command.commands) {
    cases.commands += fmt::format("      '{0} {1}') path='{0} {1}' ;;\n", path, sub.name);
    add_cases(path + " " + sub.name, sub, cases);
  }
}

/// A loop that sets `path` to the program with the subcommands among the preceding words.
std::string path_loop(const std::string& commands) {
  if (commands.empty()) return "";
  return fmt::format(
      "  local word\n"
      "  for word in \"${{COMP_WORDS[@]:1:COMP_CWORD-1}}\"; do\n"
      "    case \"$path $word\" in\n{}    esac\n"
      "  done\n",
      commands);
}

/// A name for shell functions: "dtfm_plan" for "dtfm-plan".
std::string as_identifier(const std::string& name) {
  std::string identifier = name;
  std::replace(identifier.begin(), identifier.end(), '-', '_');
  return identifier;
}

}  // namespace

std::string bash_completion(const CommandDescription& program) {
  Cases cases;
  add_cases(program.name, program, cases);
  return fmt::format(
      "# bash completion of {0}, generated from its options\n"
      "_{1}() {{\n"
      "  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} path={0}\n"
      "  if [[ $cur == = ]]; then # --option=\n"
      "    cur=''\n"
      "  elif [[ $prev == = ]]; then # --option=value\n"
      "    prev=${{COMP_WORDS[COMP_CWORD-2]}}\n"
      "  fi\n"
      "  COMPREPLY=()\n"
      "{2}"
      "  case \"$path $prev\" in\n{3}  esac\n"
      "  case \"$path:$cur\" in\n{4}  esac\n"
      "}}\n"
      "complete -F _{1} {0}\n",
      program.name, as_identifier(program.name), path_loop(cases.commands), cases.values, cases.words);
}

}  // namespace dtfm::cli
