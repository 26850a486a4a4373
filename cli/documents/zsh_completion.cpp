#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/documents/completion.hpp"

namespace dtfm::cli {
namespace {

using Files = OptionDescription::Files;

/// `text` escaped for use inside single quotes in an _arguments specification.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("[]:\\").find(c) != std::string_view::npos) out += '\\';
    if (c == '\'')
      out += "'\\''";
    else
      out += c;
  }
  return out;
}

std::string action(const OptionDescription& option) {
  if (!option.choices.empty()) return fmt::format("({})", fmt::join(option.choices, " "));
  if (option.files == Files::folders) return "_directories";
  return option.files == Files::files ? "_files" : " ";
}

/// `-o+` or `--output=`: the value may be attached or a separate word.
std::string option_spelling(const std::string& name, bool has_value) {
  return fmt::format("{}{}", name, !has_value ? "" : name.starts_with("--") ? "=" : "+");
}

std::string option_spec(const OptionDescription& option) {
  std::string end = fmt::format("[{}]", escaped(option.help));
  for (const std::string& value : option.values) end += fmt::format(":{}:{}", escaped(value), action(option));
  const bool has_value = !option.values.empty();
  const char* star = option.may_repeat ? "*" : "";
  if (option.names.size() == 1)
    return fmt::format("'{}{}{}'", star, option_spelling(option.names.front(), has_value), end);
  std::vector<std::string> spellings;
  for (const std::string& name : option.names) spellings.push_back(option_spelling(name, has_value));
  const std::string others = fmt::format("({})", fmt::join(option.names, " "));
  return fmt::format("'{}'{{{}}}'{}'", option.may_repeat ? star : others, fmt::join(spellings, ","), end);
}

std::string positional_spec(const OptionDescription& positional) {
  const std::string name = escaped(positional.names.front());
  return fmt::format("'{}:{}:{}'", positional.may_repeat ? "*" : "", name, action(positional));
}

/// One call of _arguments with `specs`.
std::string call(const char* options, const std::vector<std::string>& specs) {
  return fmt::format("  _arguments {} \\\n    {}\n", options, fmt::join(specs, " \\\n    "));
}

/// Completes the name of a subcommand, or calls the function of the chosen one.
std::string dispatch(const std::string& function, const CommandDescription& command) {
  std::string described, chosen;
  for (const CommandDescription& sub : command.commands) {
    described += fmt::format("        '{}:{}'\n", escaped(sub.name), escaped(sub.description));
    chosen += fmt::format("        {}) {}_{} ;;\n", sub.name, function, as_identifier(sub.name));
  }
  return fmt::format(
      "  case $state in\n"
      "    command)\n      local -a commands=(\n{}      )\n      _describe command commands ;;\n"
      "    rest)\n      case $words[1] in\n{}      esac ;;\n"
      "  esac\n",
      described, chosen);
}

/// The function of `command`, preceded by those of its subcommands.
std::string functions(const std::string& function, const CommandDescription& command) {
  std::string text;
  for (const CommandDescription& sub : command.commands)
    text += functions(fmt::format("{}_{}", function, as_identifier(sub.name)), sub);
  std::vector<std::string> specs;
  for (const OptionDescription& option : command.options) specs.push_back(option_spec(option));
  text += function + "() {\n";
  if (command.commands.empty()) {
    for (const OptionDescription& positional : command.positionals)
      specs.push_back(positional_spec(positional));
    return text + call("-S", specs) + "}\n";
  }
  specs.insert(specs.end(), {"'1: :->command'", "'*:: :->rest'"});
  text += "  local curcontext=$curcontext state state_descr line\n  typeset -A opt_args\n";
  return text + call("-C -S", specs) + dispatch(function, command) + "}\n";
}

}  // namespace

std::string zsh_completion(const CommandDescription& program) {
  const std::string function = fmt::format("_{}", as_identifier(program.name));
  return fmt::format("#compdef {0}\n# zsh completion of {0}, generated from its options\n{1}{2} \"$@\"\n",
                     program.name, functions(function, program), function);
}

}  // namespace dtfm::cli
