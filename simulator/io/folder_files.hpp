// The files that one file names, all together bounded.
#pragma once

#include <cstddef>
#include <filesystem>
#include <utility>

#include "planner/io/text/named_file.hpp"

namespace dtfm::io {

class FolderFiles {
 public:
  /// Bytes of all traces that one scenario reads. What is kept of them takes at most about as much again.
  static constexpr std::size_t limit = std::size_t{512} << 20;

  explicit FolderFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Throws Error at `value` for a file that is not below the folder or that is too much.
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
