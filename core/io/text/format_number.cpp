#include "core/io/text/format_number.hpp"

#include <fmt/format.h>

namespace dtfm::io {

std::string with_thousands(long long number) {
  const std::string digits = fmt::format("{}", number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const bool after_digit = i > 0 && digits[i - 1] != '-';
    if (after_digit && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string format_count(long long number, std::string_view noun) {
  return fmt::format("{} {}{}", with_thousands(number), noun, number == 1 ? "" : "s");
}

std::string format_percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

std::string short_seconds(double seconds) {
  return fmt::format("{:#.6g}", seconds);
}

}  // namespace dtfm::io
