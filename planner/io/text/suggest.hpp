// What to tell a user who typed a name that does not exist.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dtfm::io {

/// The known name that is near `word` (edit distance with swaps of neighbours, case ignored); empty: none is.
/// Ties go to the name that comes first in `known`.
std::string_view nearest_name(std::string_view word, const std::vector<std::string_view>& known);

/// "did you mean `bandwidth`?" where a known name is near `word`, else "known: `a`, `b` and 3 more".
std::string suggestion(std::string_view word, const std::vector<std::string_view>& known);

/// Throws Error "where: what `word`; " and the suggestion: `what` is "unknown GPU", say.
[[noreturn]] void fail_unknown(const std::string& where, std::string_view what, std::string_view word,
                               const std::vector<std::string_view>& known);

/// The row of a table whose `name` is `name`, which lives as long as the table's rows. Throws Error as
/// fail_unknown.
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

/// `text` in back quotes, cut to a length that fits a line, control characters made visible.
std::string quote(std::string_view text);

}  // namespace dtfm::io
