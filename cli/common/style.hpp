// Colour and weight of what people read. A text carries marks for these until it is printed, which leaves the
// marks out or turns them into what a terminal understands.
#pragma once

#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace dtfm::cli {

enum class Style { heading, warning, bad, good };

/// `text`, of one line, between marks. Marks have no width (words.hpp), and do not nest.
std::string styled(Style style, std::string_view text);
bool is_style_mark(char c);

enum class ColorChoice { automatic, always, never };

/// --color.
void add_color_option(CLI::App& app, ColorChoice& choice);

/// Whether stdout gets colours: `automatic` says so for a terminal that is not dumb, unless the variable
/// NO_COLOR holds anything (no-color.org).
bool has_colors(ColorChoice choice);

/// `text` as it is printed: with colours or without, and with what a terminal would obey made visible, but
/// tabs and ends of lines.
std::string printable(std::string_view text, bool colors);

}  // namespace dtfm::cli
