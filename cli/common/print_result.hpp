// Prints to stdout, which holds the result only.
#pragma once

#include <cstdio>
#include <string>

#include "cli/common/style.hpp"
#include "core/base/error.hpp"

namespace dtfm::cli {

/// Prints `text` with or without colours. Throws Error if it cannot be written: a lost result is a failure.
inline void print_result(const std::string& text, ColorChoice color = ColorChoice::automatic) {
  const std::string out = printable(text, has_colors(color));
  const bool written =
      std::fwrite(out.data(), 1, out.size(), stdout) == out.size() && std::fflush(stdout) == 0;
  if (!written) throw Error("stdout", "cannot be written");
}

}  // namespace dtfm::cli
