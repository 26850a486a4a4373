#include "core/io/text/control_characters.hpp"

#include <fmt/format.h>

namespace dtfm::io {
namespace {

unsigned byte_at(std::string_view text, std::size_t at) {
  return at < text.size() ? static_cast<unsigned char>(text[at]) : 0;
}

/// Code point of the control character that the first `length` bytes of `text` encode.
unsigned code_point(std::string_view text, std::size_t length) {
  if (length == 1) return byte_at(text, 0);
  if (length == 2) return (byte_at(text, 0) & 0x1F) << 6 | (byte_at(text, 1) & 0x3F);
  return (byte_at(text, 0) & 0x0F) << 12 | (byte_at(text, 1) & 0x3F) << 6 | (byte_at(text, 2) & 0x3F);
}

}  // namespace

std::size_t control_character_length(std::string_view text) {
  const unsigned first = byte_at(text, 0), second = byte_at(text, 1), third = byte_at(text, 2);
  if (first < 0x20 || first == 0x7F) return 1;
  if (first == 0xC2 && second >= 0x80 && second <= 0x9F) return 2;
  const bool is_embedding = first == 0xE2 && second == 0x80 && third >= 0xAA && third <= 0xAE;
  const bool is_isolate = first == 0xE2 && second == 0x81 && third >= 0xA6 && third <= 0xA9;
  return is_embedding || is_isolate ? 3 : 0;
}

bool has_control_character(std::string_view text) {
  for (; !text.empty(); text.remove_prefix(1))
    if (control_character_length(text) > 0) return true;
  return false;
}

std::string escape_control_characters(std::string_view text, std::string_view allowed) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = control_character_length(text);
    if (length == 0 || allowed.find(text.front()) != std::string_view::npos)
      result += text.front();
    else if (const unsigned code = code_point(text, length); code < 0x20)
      result += fmt::format("\\x{:02x}", code);
    else
      result += fmt::format("\\u{:04x}", code);  // JSON does not require escapes for these
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return result;
}

}  // namespace dtfm::io
