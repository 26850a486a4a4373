#include "cli/documents/documents.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dtfm::cli {
namespace {

/// Removes the first character of `text`, which must be valid UTF-8 of several bytes, and returns its code
/// point.
unsigned take_character(std::string_view& text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  unsigned code = lead & (0x7Fu >> size);
  for (std::size_t i = 1; i < size; ++i) code = code << 6 | (static_cast<unsigned char>(text.at(i)) & 0x3Fu);
  text.remove_prefix(size);
  return code;
}

/// `text` escaped for roff, so that text copied from a manual page is the original text.
std::string escaped(std::string_view text) {
  constexpr std::pair<char, std::string_view> special[] = {{'\\', "\\e"},  {'-', "\\-"},   {'\'', "\\(aq"},
                                                           {'"', "\\(dq"}, {'`', "\\(ga"}, {'^', "\\(ha"},
                                                           {'~', "\\(ti"}};
  std::string out;
  while (!text.empty()) {
    const char c = text.front();
    const auto found =
        std::find_if(std::begin(special), std::end(special), [&](const auto& s) { return s.first == c; });
    if (static_cast<unsigned char>(c) >= 0x80) {
      out += fmt::format("\\[u{:04X}]", take_character(text));
      continue;
    }
    out += found == std::end(special) ? std::string(1, c) : std::string(found->second);
    text.remove_prefix(1);
  }
  return out;
}

/// A text line, which must not be interpreted as a request.
std::string line(const std::string& roff) {
  return fmt::format("{}{}\n", roff.starts_with('.') ? "\\&" : "", roff);
}

std::string bold(std::string_view text) {
  return fmt::format("\\fB{}\\fR", escaped(text));
}
std::string italic(std::string_view text) {
  return fmt::format("\\fI{}\\fR", escaped(text));
}

std::string capitals(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

using Lines = std::vector<std::string>;

std::vector<Lines> paragraphs_of(const std::string& text) {
  std::vector<Lines> paragraphs(1);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (end == begin)
      paragraphs.emplace_back();
    else
      paragraphs.back().push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  std::erase_if(paragraphs, [](const Lines& lines) { return lines.empty(); });
  return paragraphs;
}

bool is_verbatim(const std::string& text) {
  return text.starts_with(' ');
}

/// A paragraph in roff: indented lines are preformatted, the others are filled.
std::string paragraph(const Lines& lines) {
  std::string roff = ".PP\n";
  bool verbatim = false;
  for (const std::string& text : lines) {
    if (is_verbatim(text) != verbatim) roff += verbatim ? ".EE\n" : ".EX\n";
    verbatim = is_verbatim(text);
    roff += line(escaped(text));
  }
  return roff + (verbatim ? ".EE\n" : "");
}

struct Sections {
  std::string examples, exit_status, notes;
};

/// Sorts the paragraphs of the footer into sections by how they begin; indented ones follow the previous one.
Sections sections_of(const std::string& footer) {
  Sections sections;
  std::string* section = &sections.notes;
  for (Lines& lines : paragraphs_of(footer)) {
    constexpr std::string_view examples = "Examples:", exit_codes = "Exit codes:";
    std::string& first = lines.front();
    if (!is_verbatim(first)) section = &sections.notes;
    if (first == examples) {
      section = &sections.examples;
      lines.erase(lines.begin());
    } else if (first.starts_with(exit_codes)) {
      section = &sections.exit_status;
      first.erase(0, std::min(first.size(), exit_codes.size() + 1));
    }
    *section += paragraph(lines);
  }
  return sections;
}

std::string section(const char* title, const std::string& body) {
  return body.empty() ? "" : fmt::format(".SH {}\n{}", title, body);
}

std::string option_item(const OptionDescription& option) {
  std::vector<std::string> names, values;
  for (const std::string& name : option.names) names.push_back(bold(name));
  for (const std::string& value : option.values) values.push_back(fmt::format(" {}", italic(value)));
  return fmt::format(".TP\n{}{}", line(fmt::format("{}{}", fmt::join(names, ", "), fmt::join(values, ""))),
                     line(escaped(option.help.empty() ? "see above" : option.help)));
}

std::string items(std::span<const OptionDescription> options) {
  std::string text;
  for (const OptionDescription& option : options) text += option_item(option);
  return text;
}

/// The options under the headings of --help, unless all have the same.
std::string grouped_items(std::span<const OptionDescription> options) {
  const bool has_groups = std::any_of(options.begin(), options.end(), [&](const OptionDescription& option) {
    return option.group != options.front().group;
  });
  if (!has_groups) return items(options);
  std::string text, group;
  for (const OptionDescription& option : options) {
    if (option.group != group) text += fmt::format(".SS \"{}\"\n", escaped(option.group));
    group = option.group;
    text += option_item(option);
  }
  return text;
}

std::string synopsis(const std::string& path, const CommandDescription& command) {
  std::string text = fmt::format("{} [{}]...", bold(path), italic("OPTION"));
  for (const OptionDescription& positional : command.positionals) {
    const std::string name =
        fmt::format("{}{}", italic(positional.names.front()), positional.may_repeat ? "..." : "");
    text += fmt::format(" [{}]", name);
  }
  if (!command.commands.empty()) text += fmt::format(" {}", italic("COMMAND"));
  return fmt::format(".PP\n{}", line(text));
}

/// The synopsis of `command`, reached by `path`, and of all its subcommands.
std::string synopses(const std::string& path, const CommandDescription& command) {
  std::string text = synopsis(path, command);
  for (const CommandDescription& sub : command.commands) text += synopses(path + " " + sub.name, sub);
  return text;
}

std::string footer_text(const std::string& footer) {
  std::string text;
  for (const Lines& lines : paragraphs_of(footer)) text += paragraph(lines);
  return text;
}

/// Subcommands, each under a heading of its own.
std::string command_items(const std::string& path, const CommandDescription& command) {
  std::string text;
  for (const CommandDescription& sub : command.commands) {
    const std::string its_path = path.empty() ? sub.name : path + " " + sub.name;
    text += fmt::format(".SS \"{}\"\n", escaped(its_path)) + line(escaped(sub.description));
    text += items(sub.positionals) + items(sub.options) + footer_text(sub.footer);
    text += command_items(its_path, sub);
  }
  return text;
}

/// The description as whatis expects it: without initial capital and full stop.
std::string short_description(std::string text) {
  if (!text.empty()) text.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(text.front())));
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string references(const CommandDescription& program, std::span<const CommandDescription> programs) {
  std::vector<std::string> names;
  for (const CommandDescription& other : programs)
    if (other.name != program.name) names.push_back(bold(other.name) + "(1)");
  return names.empty() ? "" : line(fmt::format("{}", fmt::join(names, ", ")));
}

}  // namespace

std::string manual_page(const CommandDescription& program, std::span<const CommandDescription> programs) {
  const Sections footer = sections_of(program.footer);
  return fmt::format(".TH {} 1 \"\" \"dtfm {}\" \"User Commands\"\n", escaped(capitals(program.name)),
                     escaped(DTFM_VERSION)) +
         section("NAME",
                 line(escaped(program.name) + " \\- " + escaped(short_description(program.description)))) +
         section("SYNOPSIS", synopses(program.name, program)) +
         section("DESCRIPTION", line(escaped(program.description)) + items(program.positionals)) +
         section("OPTIONS", grouped_items(program.options)) +
         section("COMMANDS", command_items("", program)) + section("EXIT STATUS", footer.exit_status) +
         section("NOTES", footer.notes) + section("EXAMPLES", footer.examples) +
         section("SEE ALSO", references(program, programs));
}

}  // namespace dtfm::cli
