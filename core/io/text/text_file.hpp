// Reads untrusted files as text: bounded in size, valid UTF-8, without control characters.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>

namespace dtfm::io {

inline constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

/// A file of at most `limit` bytes, read in parts. All functions throw Error naming the file.
class FileParts {
 public:
  FileParts(std::filesystem::path path, std::size_t limit);
  /// Appends the next part to `text`. Returns false if there was none.
  bool append_next(std::string& text);

 private:
  std::filesystem::path path_;
  std::size_t limit_, size_ = 0;
  std::ifstream stream_;
};

/// Returns the content of a file of at most `limit` bytes. Throws Error naming the file. `referenced_by` is
/// the position of the reference to the file, which is recorded in the ReadLog.
std::string read_file(const std::filesystem::path& path, std::size_t limit,
                      std::string_view referenced_by = {});

/// Opens a text from its beginning. Each call of the result appends the next part of it, and returns false if
/// there is none.
using OpenText = std::function<std::function<bool(std::string& text)>()>;

/// Returns `text` without a byte-order mark. Throws Error with the position (line and column from 1, columns
/// in bytes) of the first byte that is not valid UTF-8 or is a control character other than tab, line feed
/// and carriage return.
std::string validate_text(std::string text, const std::string& file);

/// Throws Error like `validate_text`. `first_line` is the number of the first line in the file.
void check_characters(std::string_view text, const std::string& file, std::size_t first_line = 1);

/// Formats a position as "file:line:column".
std::string position(const std::string& file, std::size_t line, std::size_t column);

}  // namespace dtfm::io
