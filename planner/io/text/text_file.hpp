// Files from strangers as text: bounded in size, valid UTF-8, without control characters.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace dtfm::io {

/// The bytes of a file of at most `limit` bytes. Throws Error that names the file. `referenced_by`: what a ReadLog
/// says of who names it.
std::string read_file(const std::filesystem::path& path, std::size_t limit, std::string_view referenced_by = {});

/// `text` as UTF-8 without a byte-order mark. Throws Error with the position (line and column from 1, in
/// bytes) of the first byte that is not UTF-8 or is a control character other than tab, line feed and
/// carriage return.
std::string validate_text(std::string text, const std::string& file);

/// "file:line:column"
std::string position(const std::string& file, std::size_t line, std::size_t column);

}  // namespace dtfm::io
