// Splits text at separators.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

namespace dtfm::io {

/// The parts of `text` between separators, also empty ones: at least one. They refer to `text`.
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace dtfm::io
