#include "core/io/text/suggest.hpp"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/io/text/control_characters.hpp"

namespace dtfm::io {
namespace {

constexpr std::size_t max_compared_length = 64, max_quoted_length = 60;
constexpr std::size_t max_listed =
    100;  // more than keys and options have; only devices and sites may be more

char lower(char c) {
  return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

/// Number of insertions, deletions, replacements and swaps of adjacent characters that turn `a` into `b`
/// (optimal string alignment distance), ignoring case.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> two_before, before, row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    two_before = std::exchange(before, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = before[j - 1] + (lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1);
      row[j] = std::min({before[j] + 1, row[j - 1] + 1, replaced});
      const bool swapped =
          i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]);
      if (swapped) row[j] = std::min(row[j], two_before[j - 2] + 1);
    }
  }
  return row.back();
}

std::string format_known(const std::vector<std::string_view>& known) {
  std::string text = "known:";
  for (std::size_t i = 0; i < std::min(known.size(), max_listed); ++i)
    text += (i == 0 ? " " : ", ") + quote(known[i]);
  if (known.size() > max_listed) text += fmt::format(" and {} more", known.size() - max_listed);
  return known.empty() ? "there are none" : text;
}

}  // namespace

std::string_view nearest_name(std::string_view word, const std::vector<std::string_view>& known) {
  std::string_view nearest;
  std::size_t smallest =
      std::max<std::size_t>(2, word.size() / 3 + 1);  // one more than the largest accepted distance
  if (word.size() <= max_compared_length)
    for (const std::string_view name : known) {
      if (name.size() > max_compared_length) continue;
      const std::size_t distance = edit_distance(word, name);
      if (distance >= smallest || distance >= name.size()) continue;
      smallest = distance;
      nearest = name;
    }
  return nearest;
}

std::string suggestion(std::string_view word, const std::vector<std::string_view>& known) {
  const std::string_view nearest = nearest_name(word, known);
  return nearest.empty() ? format_known(known) : fmt::format("did you mean {}?", quote(nearest));
}

void fail_unknown(const std::string& where, std::string_view what, std::string_view word,
                  const std::vector<std::string_view>& known) {
  throw Error(where, fmt::format("{} {}; {}", what, quote(word), suggestion(word, known)));
}

std::string quote(std::string_view text) {
  std::size_t length = std::min(text.size(), max_quoted_length);
  const bool cut = length < text.size();
  while (cut && length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80)
    --length;  // do not cut inside a UTF-8 character
  return fmt::format("`{}{}`", escape_control_characters(text.substr(0, length)), cut ? "…" : "");
}

}  // namespace dtfm::io
