// Suggestions for users who mistyped a name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dtfm::io {

/// The known name that is closest to `word` by edit distance (with swaps of adjacent characters, ignoring
/// case), or empty if none is close. Ties go to the name that comes first in `known`.
std::string_view nearest_name(std::string_view word, const std::vector<std::string_view>& known);

/// Returns "did you mean `bandwidth`?" if a known name is close to `word`, else "known: `a`, `b` and 3 more".
std::string suggestion(std::string_view word, const std::vector<std::string_view>& known);

/// Throws Error "where: what `word`; suggestion". An example of `what` is "unknown GPU".
[[noreturn]] void fail_unknown(const std::string& where, std::string_view what, std::string_view word,
                               const std::vector<std::string_view>& known);

/// Returns the row of a table whose member `name` equals `name`, by reference to the table. Throws Error as
/// fail_unknown does if there is none.
template <class Rows>
const auto& find_row(const Rows& rows, std::string_view name, const std::string& where,
                     std::string_view what) {
  std::vector<std::string_view> known;
  for (const auto& row : rows) {
    if (row.name == name) return row;
    known.push_back(row.name);
  }
  fail_unknown(where, what, name, known);
}

/// `text` in back quotes, truncated to at most 60 bytes, with control characters escaped.
std::string quote(std::string_view text);

}  // namespace dtfm::io
