// Numbers on the command line.
#pragma once

#include <charconv>
#include <string>

#include <fmt/format.h>

#include "planner/core/error.hpp"
#include "planner/io/text/suggest.hpp"
#include "planner/io/text/units.hpp"

namespace dtfm::cli {

/// A whole number in [least, most] and nothing else: no sign +, no blank, no hexadecimal. Throws Error.
template <class Integer>
Integer whole_number(const std::string& option, const std::string& text, Integer least, Integer most) {
  Integer value{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || value < least || value > most)
    throw Error(option,
                fmt::format("expected a whole number from {} to {}; found {}", least, most, io::in_quotes(text)));
  return value;
}

/// A decimal number from 0 to 1, or below 1. Throws Error.
inline double share(const std::string& option, const std::string& text, bool below_one) {
  try {
    const double value = io::parse_decimal(text);
    if (value >= 0 && (below_one ? value < 1 : value <= 1)) return value;
  } catch (const Error&) {
  }
  throw Error(option, fmt::format("expected a number from 0 to {}1; found {}", below_one ? "below " : "",
                                  io::in_quotes(text)));
}

inline double share_to_one(const std::string& option, const std::string& text) {
  return share(option, text, false);
}

inline double share_below_one(const std::string& option, const std::string& text) {
  return share(option, text, true);
}

}  // namespace dtfm::cli
