#include "core/io/text/text_file.hpp"

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/io/text/read_log.hpp"

namespace dtfm::io {
namespace {

using Byte = unsigned char;

bool is_continuation(Byte byte) {
  return (byte & 0xC0) == 0x80;
}

/// Length in bytes of the UTF-8 character that begins at `at`, or 0 if it is malformed (RFC 3629: overlong
/// forms and surrogates are not allowed).
std::size_t character_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return at + i < text.size() ? static_cast<Byte>(text[at + i]) : Byte{0};
  };
  const Byte first = byte(0), second = byte(1);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return is_continuation(second) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const bool ok = second >= (first == 0xE0 ? 0xA0 : 0x80) && second <= (first == 0xED ? 0x9F : 0xBF);
    return ok && is_continuation(byte(2)) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool ok = second >= (first == 0xF0 ? 0x90 : 0x80) && second <= (first == 0xF4 ? 0x8F : 0xBF);
    return ok && is_continuation(byte(2)) && is_continuation(byte(3)) ? 4 : 0;
  }
  return 0;
}

bool is_forbidden(Byte byte) {
  return (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7F;
}

Error bad_byte_error(std::string_view text, std::size_t at, const std::string& file, std::size_t first_line,
                     const char* what) {
  const std::string_view before = text.substr(0, at);
  const auto line = static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n')) + first_line;
  const std::size_t line_begin = before.rfind('\n') + 1;  // npos + 1 = 0
  return Error(position(file, line, at - line_begin + 1),
               fmt::format("{}: byte 0x{:02X}", what, static_cast<Byte>(text[at])));
}

}  // namespace

std::string position(const std::string& file, std::size_t line, std::size_t column) {
  return fmt::format("{}:{}:{}", file, line, column);
}

FileParts::FileParts(std::filesystem::path path, std::size_t limit) : path_(std::move(path)), limit_(limit) {
  std::error_code code;
  if (std::filesystem::is_directory(path_, code))
    throw Error(path_.string(), "expected a file; found a directory");
  errno = 0;
  stream_.open(path_, std::ios::binary);
  if (!stream_) throw Error(path_.string(), "cannot be opened: " + std::generic_category().message(errno));
}

bool FileParts::append_next(std::string& text) {
  constexpr std::size_t part = std::size_t{1} << 16;
  if (!stream_) return false;
  const std::size_t before = text.size();
  text.resize(before + part);
  stream_.read(text.data() + before, static_cast<std::streamsize>(part));
  text.resize(before + static_cast<std::size_t>(stream_.gcount()));
  size_ += text.size() - before;
  if (stream_.bad()) throw Error(path_.string(), "cannot be read");
  if (size_ > limit_) throw Error(path_.string(), fmt::format("is larger than {} bytes", limit_));
  return text.size() > before;
}

std::string read_file(const std::filesystem::path& path, std::size_t limit, std::string_view referenced_by) {
  FileParts parts(path, limit);
  std::string text;
  while (parts.append_next(text)) continue;
  ReadLog::note(path.string(), referenced_by);
  return text;
}

void check_characters(std::string_view text, const std::string& file, std::size_t first_line) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character_length(text, at);
    if (length == 0) throw bad_byte_error(text, at, file, first_line, "not UTF-8 text");
    if (is_forbidden(static_cast<Byte>(text[at])))
      throw bad_byte_error(text, at, file, first_line, "control character in a text file");
    at += length;
  }
}

std::string validate_text(std::string text, const std::string& file) {
  if (text.starts_with(byte_order_mark)) text.erase(0, byte_order_mark.size());
  check_characters(text, file);
  return text;
}

}  // namespace dtfm::io
