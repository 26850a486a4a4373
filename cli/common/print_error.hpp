// stderr: what is said there matters less than the result, so that nobody reading it is no error.
#pragma once

#include <cstdio>
#include <string_view>

namespace dtfm::cli {

inline void print_error(std::string_view text) noexcept {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace dtfm::cli
