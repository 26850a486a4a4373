// Parses numbers that options have.
#pragma once

#include <charconv>
#include <string>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/units.hpp"

namespace dtfm::io {

/// Parses a decimal whole number in [min_value, max_value], without plus sign or white space. Throws Error.
template <class Integer>
Integer parse_whole_number(const std::string& option, const std::string& text, Integer min_value,
                           Integer max_value) {
  Integer value{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || value < min_value || value > max_value)
    throw Error(option, fmt::format("expected a whole number from {} to {}; found {}", min_value, max_value,
                                    quote(text)));
  return value;
}

/// Parses a decimal number in [0, 1], or in [0, 1) if `is_below_one`. Throws Error.
inline double parse_fraction(const std::string& option, const std::string& text, bool is_below_one) {
  try {
    const double value = parse_decimal(text);
    if (value >= 0 && (is_below_one ? value < 1 : value <= 1)) return value;
  } catch (const Error&) {
  }
  throw Error(option, fmt::format("expected a number from 0 to {}1; found {}", is_below_one ? "below " : "",
                                  quote(text)));
}

inline double parse_fraction_up_to_one(const std::string& option, const std::string& text) {
  return parse_fraction(option, text, false);
}

inline double parse_fraction_below_one(const std::string& option, const std::string& text) {
  return parse_fraction(option, text, true);
}

}  // namespace dtfm::io
