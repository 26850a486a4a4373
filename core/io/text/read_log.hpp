// Records which files were read and what referred to them, so that no output overwrites an input.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtfm::io {

struct ReadFile {
  std::string path;
  std::string referenced_by;  // "job.yaml:5:12" or a file; empty if no file refers to it
};

/// Records the files that read_file reads in this thread during the lifetime of the log. A nested log
/// replaces the outer one until it is destroyed.
class ReadLog {
 public:
  ReadLog();
  ReadLog(const ReadLog&) = delete;
  ReadLog& operator=(const ReadLog&) = delete;
  ~ReadLog();

  /// In the order of reading; a file that is read repeatedly is listed once per reference.
  const std::vector<ReadFile>& files() const { return files_; }

  /// Called by read_file; does nothing if this thread has no log.
  static void note(std::string_view path, std::string_view referenced_by);

 private:
  std::vector<ReadFile> files_;
  ReadLog* outer_;
};

/// Whether two outputs, or an input and an output, are one file. They need not exist. Any number of outputs
/// may go to /dev/null, so it equals no other file.
bool is_same_file(const std::string& a, const std::string& b);

/// Throws Error for an output that was read, because inputs may refer to files that the user has not named.
/// Call it when all files have been read, before the work begins. Empty names are ignored.
void check_not_read(const ReadLog& read, std::span<const std::string> outputs);

}  // namespace dtfm::io
