// Output files appear whole or not at all.
#pragma once

#include <filesystem>
#include <string_view>

namespace dtfm {

/// Writes `content` beside `path`, makes it durable (fsync) and renames it to `path`. On failure throws Error
/// naming `path`, and leaves what was there before. A symbolic link is followed; a folder, a device or a pipe
/// is refused.
void write_whole_file(const std::filesystem::path& path, std::string_view content);

/// Throws the Error that write_whole_file would throw, as far as this can be known before there is any
/// content.
void check_can_write(const std::filesystem::path& path);

}  // namespace dtfm
