// Atomic output: a file appears completely written or not at all.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace dtfm::io {

/// Writes `content` to a temporary file beside `path`, makes it durable (fsync) and renames it to `path`. On
/// failure it throws Error naming `path` and leaves the previous file unchanged. Symbolic links are followed;
/// folders and block devices are rejected. A pipe, a terminal, /dev/null and the file that is stdout cannot
/// be replaced and are written in place; `-` means stdout.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

/// The same for content that is written in parts. `commit` makes all of it appear at `path`; without
/// `commit`, nothing does.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path);
  AtomicFile(AtomicFile&&) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  void write(std::string_view part);
  /// Must be the last call.
  void commit();

 private:
  std::unique_ptr<class OutputFile> file_;
  std::string buffer_;
};

/// Whether writing to `path` writes to stdout.
bool is_stdout(const std::filesystem::path& path);

/// Throws the Error that write_file_atomically would throw, as far as that can be known before writing.
void check_writable(const std::filesystem::path& path);

}  // namespace dtfm::io
