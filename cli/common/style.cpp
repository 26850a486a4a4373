#include "cli/common/style.hpp"

#include <array>
#include <cstdlib>

#include <unistd.h>

#include <fmt/format.h>

#include "cli/common/launcher.hpp"
#include "core/base/error.hpp"
#include "core/io/text/control_characters.hpp"
#include "core/io/text/suggest.hpp"

namespace dtfm::cli {
namespace {

// Control characters, which all readers reject in names.
constexpr char first_mark = '\x01', end_mark = '\x05';
constexpr std::array<std::string_view, 4> codes = {"\033[1m", "\033[33m", "\033[31m",
                                                   "\033[32m"};  // index: Style
constexpr std::string_view reset = "\033[0m";

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

ColorChoice parse_color_choice(const std::string& name) {
  if (name == "auto") return ColorChoice::automatic;
  if (name == "always") return ColorChoice::always;
  if (name == "never") return ColorChoice::never;
  throw Error("--color", fmt::format("expected auto, always or never; found {}", io::quote(name)));
}

}  // namespace

std::string styled(Style style, std::string_view text) {
  return fmt::format("{}{}{}", static_cast<char>(first_mark + static_cast<char>(style)), text, end_mark);
}

bool is_style_mark(char c) {
  return c >= first_mark && c <= end_mark;
}

void add_color_option(request::OptionList& list, ColorChoice& choice) {
  add_option(list, "--color", "auto|always|never",
             "colors of the printed result [auto: on a terminal, unless NO_COLOR is set]",
             [&](const std::string& text) { choice = parse_color_choice(text); });
}

bool has_colors(ColorChoice choice) {
  if (choice != ColorChoice::automatic) return choice == ColorChoice::always;
  // mpirun gives its processes a terminal even if its own output goes to a file.
  if (launch_of_environment().by_launcher) return false;
  return variable("NO_COLOR").empty() && variable("TERM") != "dumb" && ::isatty(STDOUT_FILENO) == 1;
}

std::string printable(std::string_view text, bool colors) {
  std::string result;
  bool open = false;
  const auto close = [&] {
    if (open) result += reset;
    open = false;
  };
  for (std::size_t begin = 0; begin < text.size();) {
    const char c = text[begin];
    if (is_style_mark(c)) {
      close();
      open = colors && c != end_mark;
      if (open) result += codes[static_cast<std::size_t>(c - first_mark)];
      ++begin;
      continue;
    }
    if (c == '\n') close();  // A truncated line has lost its end mark.
    std::size_t end = begin + 1;
    while (end < text.size() && !is_style_mark(text[end]) && text[end] != '\n') ++end;
    result += io::escape_control_characters(text.substr(begin, end - begin), "\n\t");
    begin = end;
  }
  close();
  return result;
}

}  // namespace dtfm::cli
