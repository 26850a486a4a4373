// Reads untrusted files as text: bounded in size, valid UTF-8, without control characters.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace dtfm::io {

/// Returns the content of a file of at most `limit` bytes. Throws Error naming the file. `referenced_by` is
/// the position of the reference to the file, which is recorded in the ReadLog.
std::string read_file(const std::filesystem::path& path, std::size_t limit,
                      std::string_view referenced_by = {});

/// Returns `text` without a byte-order mark. Throws Error with the position (line and column from 1, columns
/// in bytes) of the first byte that is not valid UTF-8 or is a control character other than tab, line feed
/// and carriage return.
std::string validate_text(std::string text, const std::string& file);

/// Formats a position as "file:line:column".
std::string position(const std::string& file, std::size_t line, std::size_t column);

}  // namespace dtfm::io
