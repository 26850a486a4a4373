// Finds and escapes control characters, which a terminal would interpret instead of displaying.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dtfm::io {

/// Length in bytes of the control character with which the non-empty UTF-8 `text` begins, or 0 if it begins
/// with another character. Control characters are those below the space, DEL, U+0080 … U+009F, and those that
/// change the direction of text (U+202A … U+202E, U+2066 … U+2069).
std::size_t control_character_length(std::string_view text);

bool has_control_character(std::string_view text);

/// Returns `text` with its control characters written as `\x1b` or `\u009b`, except for the one-byte
/// characters in `allowed`.
std::string escape_control_characters(std::string_view text, std::string_view allowed = "");

}  // namespace dtfm::io
