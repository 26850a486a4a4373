// What a terminal would obey instead of showing it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dtfm::io {

/// Bytes of the control character of UTF-8 that `text`, not empty, begins with; 0: it begins with none. Those
/// below the blank and DEL, U+0080 … U+009F, and those that change the direction of text (U+202A … E, U+2066
/// … 9).
std::size_t control_character_length(std::string_view text);

bool has_control_character(std::string_view text);

/// `text` with its control characters as `\x1b` or `\u009b`, but those in `kept`, of one byte each, as they
/// are.
std::string escape_control_characters(std::string_view text, std::string_view allowed = "");

}  // namespace dtfm::io
