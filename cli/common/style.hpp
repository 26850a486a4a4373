// Colours of printed text. A text contains marks for its styles, which printing removes or replaces with the
// escape sequences of terminals.
#pragma once

#include <string>
#include <string_view>

#include "planner/request/option_list.hpp"

namespace dtfm::cli {

enum class Style { heading, warning, bad, good };

/// Returns `text`, which must be a single line, between marks. Marks do not nest, and text_formatting.hpp
/// counts them as having no width.
std::string styled(Style style, std::string_view text);
bool is_style_mark(char c);

enum class ColorChoice { automatic, always, never };

/// Adds --color.
void add_color_option(request::OptionList& list, ColorChoice& choice);

/// Whether stdout gets colours. With `automatic` it does if it is a terminal that is not dumb and the
/// variable NO_COLOR is empty (no-color.org).
bool has_colors(ColorChoice choice);

/// Returns `text` with or without colours. Control characters other than tab and newline are escaped, so that
/// a name in an input file cannot control the terminal.
std::string printable(std::string_view text, bool colors);

}  // namespace dtfm::cli
