// Reads the files that another file names, with a limit on their total size.
#pragma once

#include <cstddef>
#include <filesystem>
#include <utility>

#include "core/io/text/named_file.hpp"

namespace dtfm::io {

class FolderFiles {
 public:
  /// Maximum total bytes of the traces of one scenario. Their parsed form takes at most about as much memory.
  static constexpr std::size_t limit = std::size_t{512} << 20;

  explicit FolderFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Throws Error at `value` for a file outside the folder, or one that exceeds the total size.
  NamedFile read(const YamlValue& value) {
    NamedFile file = read_named_file(value, folder_, remaining_bytes_);
    remaining_bytes_ -= file.text.size();
    return file;
  }

 private:
  std::filesystem::path folder_;
  std::size_t remaining_bytes_ = limit;
};

}  // namespace dtfm::io
