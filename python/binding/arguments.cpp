#include "python/binding/arguments.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/io/text/suggest.hpp"

namespace dtfm::python {
namespace {

using request::Option;

const char* kind_name(request::InputKind kind) {
  switch (kind) {
    case request::InputKind::topology:
      return "a Topology";
    case request::InputKind::job:
      return "a Job";
    case request::InputKind::plan:
      return "a Plan";
    case request::InputKind::text:
      return "a document";
    case request::InputKind::none:
      break;
  }
  return "a string or a number";
}

void set_input(Option& option, const std::string& name, const request::AnyInput& input) {
  const auto kind = static_cast<request::InputKind>(input.index() + 1);
  if (kind != option.input)
    throw Error(name, fmt::format("expected {}; found {}", kind_name(option.input), kind_name(kind)));
  option.given.emplace_back();
  option.set_input(input);
}

/// Sets values one by one if the option may be repeated, else together.
void set_values(Option& option, const std::vector<std::string>& texts) {
  if (option.may_repeat && option.kind == request::OptionKind::value) {
    for (const std::string& text : texts) {
      option.given.push_back({text});
      option.set({text});
    }
    return;
  }
  option.given.push_back(texts);
  option.set(texts);
}

/// Whether `text` ends with the name of a program, as in "see dtfm-plan ".
bool names_program(std::string_view text) {
  if (text.empty() || text.back() != ' ') return false;
  text.remove_suffix(1);
  const std::string_view word = text.substr(text.find_last_of(" (`") + 1);  // npos + 1 is 0
  return word.starts_with("dtfm-") || word.ends_with(".py");
}

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || c == '-';
}

}  // namespace

std::string python_name(const Option& option) {
  std::string name(option.long_name());
  name.resize(std::min(name.size(), name.find('.')));  // of the placeholder RUNS.csv
  for (char& c : name) c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

void set_options(request::OptionList& list, const Arguments& arguments) {
  for (const auto& [name, values] : arguments) {
    const auto found =
        std::find_if(list.options.begin(), list.options.end(),
                     [&wanted = name](const Option& option) { return python_name(option) == wanted; });
    if (found == list.options.end()) {
      std::vector<std::string> names;
      for (const Option& option : list.options) names.push_back(python_name(option));
      io::fail_unknown("", "unknown argument", name, {names.begin(), names.end()});
    }
    std::vector<std::string> texts;
    for (const Argument& value : values)
      if (const auto* input = std::get_if<request::AnyInput>(&value))
        set_input(*found, name, *input);
      else
        texts.push_back(std::get<std::string>(value));
    const bool is_flag = found->kind == request::OptionKind::flag;
    if (is_flag && !texts.empty())
      throw Error(name, fmt::format("expected True or False; found {}", io::quote(texts.front())));
    if (is_flag || !texts.empty()) set_values(*found, texts);
  }
}

std::string in_python_terms(const std::string& message) {
  std::string text;
  for (std::size_t i = 0; i < message.size();) {
    const bool begins_word =
        i == 0 || message[i - 1] == ' ' || message[i - 1] == '(' || message[i - 1] == '`';
    if (!begins_word || names_program(text) || message.compare(i, 2, "--") != 0 || i + 2 >= message.size() ||
        !is_word(message[i + 2])) {
      text += message[i++];
      continue;
    }
    for (i += 2; i < message.size() && is_word(message[i]); ++i) text += message[i] == '-' ? '_' : message[i];
  }
  return text;
}

}  // namespace dtfm::python
