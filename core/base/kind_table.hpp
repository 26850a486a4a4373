// Kinds are enums with one table each: a row gives the name of a value and what the rest of the code may ask
// about it. A row has members `kind` and `name`.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"

namespace dtfm {

/// Whether there is one row for each value of the enum up to `last`, in the order of the enum.
template <class Row, std::size_t count>
constexpr bool has_row_for_each(const std::array<Row, count>& table, decltype(Row::kind) last) {
  for (std::size_t i = 0; i < count; ++i)
    if (static_cast<std::size_t>(table[i].kind) != i) return false;
  return count == static_cast<std::size_t>(last) + 1;
}

/// `table` has a row for each value (has_row_for_each).
template <class Row, std::size_t count>
const Row& row_of(const std::array<Row, count>& table, decltype(Row::kind) kind) {
  DTFM_ASSERT(static_cast<std::size_t>(kind) < count);
  return table[static_cast<std::size_t>(kind)];
}

/// The names of the rows, in their order.
template <class Row>
std::vector<std::string_view> names_in(std::span<const Row> table) {
  std::vector<std::string_view> names;
  for (const Row& row : table) names.push_back(row.name);
  return names;
}

/// The names of the rows that jobs may name: all, unless rows have a member `in_jobs`.
template <class Row>
std::vector<std::string_view> names_in_jobs(std::span<const Row> table) {
  std::vector<std::string_view> names;
  for (const Row& row : table) {
    if constexpr (requires { row.in_jobs; })
      if (!row.in_jobs) continue;
    names.push_back(row.name);
  }
  return names;
}

template <class Row>
auto kind_named(std::span<const Row> table, std::string_view name) -> std::optional<decltype(Row::kind)> {
  for (const Row& row : table)
    if (row.name == name) return row.kind;
  return std::nullopt;
}

}  // namespace dtfm
