// Output files appear whole or not at all.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace dtfm::io {

/// Writes `content` beside `path`, makes it durable (fsync) and renames it to `path`. On failure throws Error
/// naming `path`, and leaves what was there before. A symbolic link is followed; a folder or a disk is
/// refused. What cannot be replaced is written to as it is: a pipe, a terminal, /dev/null, and the file that
/// is stdout;
/// `-` is stdout.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

/// The same, part by part: what was written before `commit` is at `path` after it; without it, nothing is.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path);
  AtomicFile(AtomicFile&&) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  void write(std::string_view part);
  /// The last call.
  void commit();

 private:
  std::unique_ptr<class OutputFile> file_;
  std::string buffer_;
};

/// Whether an output of that name is stdout.
bool is_stdout(const std::filesystem::path& path);

/// Throws the Error that write_file_atomically would throw, as far as this can be known before there is any
/// content.
void check_writable(const std::filesystem::path& path);

}  // namespace dtfm::io
