// Which files were read, by their names and by those who name them: none of them may be written over.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dtfm::io {

struct ReadFile {
  std::string path;
  std::string referenced_by;  // "job.yaml:5:12", or a file; empty: no file says so
};

/// What read_file reads in this thread while the log lives; a log inside another takes its place meanwhile.
class ReadLog {
 public:
  ReadLog();
  ReadLog(const ReadLog&) = delete;
  ReadLog& operator=(const ReadLog&) = delete;
  ~ReadLog();

  /// In the order of reading; a file that is read again and again is there once for each who names it.
  const std::vector<ReadFile>& files() const { return files_; }

  /// Of read_file: nothing where there is no log.
  static void note(std::string_view path, std::string_view referenced_by);

 private:
  std::vector<ReadFile> files_;
  ReadLog* outer_;
};

}  // namespace dtfm::io
