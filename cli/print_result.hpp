// stdout, which holds the result only.
#pragma once

#include <cstdio>
#include <string>

#include "planner/core/error.hpp"

namespace dtfm {

/// Throws Error where it cannot be written: a result that nobody can read is no success.
inline void print_result(const std::string& text) {
  const bool written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (!written) throw Error("stdout", "cannot be written");
}

}  // namespace dtfm
