// Prints to stderr. Failing to do so is not an error, because messages matter less than the result.
#pragma once

#include <cstdio>
#include <string_view>

namespace dtfm::cli {

inline void print_error(std::string_view text) noexcept {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace dtfm::cli
