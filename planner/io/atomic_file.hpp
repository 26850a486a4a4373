// Output files appear whole or not at all.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace dtfm {

/// Writes `content` beside `path`, makes it durable (fsync) and renames it to `path`. On failure throws Error
/// naming `path`, and leaves what was there before. A symbolic link is followed; a folder, a device or a pipe
/// is refused.
void write_whole_file(const std::filesystem::path& path, std::string_view content);

/// The same, part by part: what was written before `commit` is at `path` after it; without it, nothing is.
class WholeFile {
 public:
  explicit WholeFile(const std::filesystem::path& path);
  WholeFile(WholeFile&&) noexcept;
  WholeFile& operator=(WholeFile&&) = delete;
  ~WholeFile();

  void write(std::string_view part);
  /// The last call.
  void commit();

 private:
  std::filesystem::path target_;
  std::unique_ptr<class FileBeside> file_;
  std::string buffer_;
};

/// Throws the Error that write_whole_file would throw, as far as this can be known before there is any
/// content.
void check_can_write(const std::filesystem::path& path);

}  // namespace dtfm
