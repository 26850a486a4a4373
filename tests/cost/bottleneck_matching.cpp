#include "planner/cost/comm_cost/bottleneck_matching.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "core/base/index.hpp"
#include "core/base/rng.hpp"
#include "tests/support/catch.hpp"

using namespace dtfm;
using namespace dtfm::cost;

namespace {

using Table = std::vector<std::vector<double>>;  // [row][column]

/// Returns a table with at most `values` distinct costs, or with all costs different if `values` is 0.
Table random_table(Rng& rng, std::size_t size, std::uint32_t values) {
  Table table(size, std::vector<double>(size));
  for (auto& row : table)
    for (double& cost : row) cost = values == 0 ? rng.uniform() : 1 + rng.below(values);
  return table;
}

/// Returns a table that defeats a greedy choice: it leaves the worst cost to the last row.
Table graded_table(std::size_t size) {
  Table table(size, std::vector<double>(size));
  for (std::size_t row = 0; row < size; ++row)
    for (std::size_t column = 0; column < size; ++column)
      table[row][column] = static_cast<double>(row * column);
  return table;
}

BottleneckMatcher matcher_of(const Table& table) {
  BottleneckMatcher matcher(static_cast<int>(table.size()));
  for (int i = 0; i < static_cast<int>(table.size()); ++i) {
    matcher.set_row(i, table[at(i)].data());
    matcher.set_column(i, i);
  }
  return matcher;
}

std::vector<int> identity(std::size_t size) {
  std::vector<int> order(size);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

double slowest_pair(const Table& table, std::span<const int> column_of_row) {
  double slowest = -std::numeric_limits<double>::infinity();
  for (std::size_t row = 0; row < table.size(); ++row)
    slowest = std::max(slowest, table[row][at(column_of_row[row])]);
  return slowest;
}

double brute_force(const Table& table) {
  auto columns = identity(table.size());
  double best = std::numeric_limits<double>::infinity();
  do best = std::min(best, slowest_pair(table, columns));
  while (std::next_permutation(columns.begin(), columns.end()));
  return best;
}

/// Whether there is a perfect matching within `threshold` (Kuhn, 1955: augmenting paths row by row).
bool has_matching_within(const Table& table, double threshold) {
  const std::size_t n = table.size();
  std::vector<int> row_of(n, -1);
  std::vector<char> seen;
  const std::function<bool(std::size_t)> augment = [&](std::size_t row) {
    for (std::size_t column = 0; column < n; ++column) {
      if (table[row][column] > threshold || seen[column]) continue;
      seen[column] = true;
      if (row_of[column] >= 0 && !augment(at(row_of[column]))) continue;
      row_of[column] = static_cast<int>(row);
      return true;
    }
    return false;
  };
  for (std::size_t row = 0; row < n; ++row) {
    seen.assign(n, false);
    if (!augment(row)) return false;
  }
  return true;
}

/// Returns, by bisection, the least cost within which there is a perfect matching.
double by_threshold(const Table& table) {
  std::vector<double> costs;
  for (const auto& row : table) costs.insert(costs.end(), row.begin(), row.end());
  std::sort(costs.begin(), costs.end());
  return *std::partition_point(costs.begin(), costs.end(),
                               [&](double cost) { return !has_matching_within(table, cost); });
}

/// Checks that the matching is perfect, that its slowest pair is the reported one, and that it costs `value`.
void check_matching(const Table& table, const BottleneckMatcher& matcher, double value) {
  const auto matching = matcher.column_of_row();
  std::vector<int> columns(matching.begin(), matching.end());
  REQUIRE(slowest_pair(table, matching) == value);
  const auto row = at(matcher.slowest_row());
  REQUIRE(table[row][at(matching[row])] == value);
  std::sort(columns.begin(), columns.end());
  REQUIRE(columns == identity(table.size()));
}

/// Solves from scratch, from arbitrary matchings, and from the matching just found.
void check_solutions(const Table& table, double value, Rng& rng, int starts) {
  BottleneckMatcher matcher = matcher_of(table);
  REQUIRE(matcher.solve() == value);
  check_matching(table, matcher, value);
  auto start = identity(table.size());
  for (int i = 0; i < starts; ++i) {
    CAPTURE(start);
    REQUIRE(matcher.solve_from(start) == value);
    check_matching(table, matcher, value);
    rng.shuffle(std::span(start));
  }
  const auto best = matcher.column_of_row();
  const std::vector<int> again(best.begin(), best.end());
  REQUIRE(matcher.solve_from(again) == value);
  check_matching(table, matcher, value);
}

}  // namespace

// Rows a, b, c and columns 0, 1, 2:   a: 1 2 9   b: 1 9 9   c: 3 4 5. b must take 0, so a takes 1 and c takes
// 2, and the slowest pair costs 5. The cheapest column of each row would be 1, 1, 3.
TEST_CASE("three pairs have the bottleneck derived by hand") {
  const Table table = {{1, 2, 9}, {1, 9, 9}, {3, 4, 5}};
  BottleneckMatcher matcher = matcher_of(table);
  CHECK(matcher.solve() == 5);
  const auto matching = matcher.column_of_row();
  CHECK(std::vector<int>(matching.begin(), matching.end()) == std::vector<int>{1, 0, 2});
  CHECK(matcher.slowest_row() == 2);
}

TEST_CASE("small problems are solved as by trying all matchings") {
  for (std::size_t size = 1; size <= 6; ++size) {
    for (std::uint32_t values : {0u, 1u, 2u, 3u, 8u}) {
      for (std::uint64_t seed = 0; seed < 30; ++seed) {
        Rng rng = Rng::for_task(seed, size * 10 + values);
        const Table table = random_table(rng, size, values);
        CAPTURE(size, values, seed, table);
        check_solutions(table, brute_force(table), rng, 6);
      }
    }
    Rng rng = Rng::for_task(0, size);
    const Table table = graded_table(size);
    check_solutions(table, brute_force(table), rng, 6);
  }
}

TEST_CASE("large problems are solved as by bisecting the threshold") {
  for (std::size_t size : {40u, 100u}) {
    for (std::uint32_t values : {0u, 2u, 5u, 50u}) {
      for (std::uint64_t seed = 0; seed < 4; ++seed) {
        CAPTURE(size, values, seed);
        Rng rng = Rng::for_task(seed, size + values);
        const Table table = random_table(rng, size, values);
        check_solutions(table, by_threshold(table), rng, 4);
      }
    }
    Rng rng = Rng::for_task(0, size);
    const Table table = graded_table(size);
    check_solutions(table, by_threshold(table), rng, 4);
  }
}

TEST_CASE("a matcher can be reused for other rows and columns of one table") {
  Rng rng = Rng::for_task(5, 0);
  const Table table = random_table(rng, 12, 7);
  BottleneckMatcher matcher(4);
  for (int round = 0; round < 50; ++round) {
    auto rows = identity(12), columns = identity(12);
    rng.shuffle(std::span(rows));
    rng.shuffle(std::span(columns));
    Table part(4, std::vector<double>(4));
    for (std::size_t r = 0; r < 4; ++r) {
      matcher.set_row(static_cast<int>(r), table[at(rows[r])].data());
      matcher.set_column(static_cast<int>(r), columns[r]);
      for (std::size_t c = 0; c < 4; ++c) part[r][c] = table[at(rows[r])][at(columns[c])];
    }
    const double value = brute_force(part);
    REQUIRE(matcher.solve() == value);
    check_matching(part, matcher, value);
  }
}

TEST_CASE("tables with equal costs or zero costs are solved") {
  for (double cost : {0.0, 0.25}) {
    const Table table(9, std::vector<double>(9, cost));
    Rng rng = Rng::for_task(0, 0);
    check_solutions(table, cost, rng, 3);
  }
}
