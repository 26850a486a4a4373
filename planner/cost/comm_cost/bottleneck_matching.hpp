// Bottleneck assignment: who of one group feeds whom of the next, so that the slowest pair is as fast as
// possible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "planner/core/index.hpp"

namespace dtfm::cost {

/// Solves bottleneck assignment problems of one size again and again, without allocating.
class BottleneckMatcher {
 public:
  explicit BottleneckMatcher(int size);

  /// Row r and column c cost `costs[column]`; both must be set for every row and column before solving, and
  /// the costs stay where they are.
  void set_row(int row, const double* costs) { rows_[at(row)] = costs; }
  void set_column(int column, int index) { columns_[at(column)] = index; }
  double cost(int row, int column) const { return rows_[at(row)][columns_[at(column)]]; }

  /// The least θ for which a perfect matching with all costs ≤ θ exists: min over matchings of the max cost.
  double solve();
  /// The same, from a perfect matching at hand (the column of each row): fast where that is nearly the best.
  double solve_from(std::span<const int> column_of_row);

  /// After solving: the column of each row in a matching that attains it, and the row of its slowest pair.
  std::span<const int> column_of_row() const { return column_of_row_; }
  int slowest_row() const;

 private:
  double lower_bound();
  void match_within(double threshold);
  void augment_within(int row);
  double augment(int row, double threshold, double most);
  void flip_path_to(int column);
  double slowest_pair_but(int row) const;

  int size_;
  std::vector<const double*> rows_;
  std::vector<int> columns_;
  std::vector<int> column_of_row_, row_of_column_;
  std::vector<int> parent_;                  // of a column: the row it was reached from
  std::vector<int> unvisited_;               // columns
  std::size_t words_;                        // 64-bit words of a set of columns
  std::vector<std::uint64_t> admissible_;    // rows × words: columns within the threshold
  std::vector<std::uint64_t> open_columns_;  // not visited yet
  std::vector<int> queue_;                   // rows
  std::vector<double> key_;                  // of a column: its least cost from a visited row
};

}  // namespace dtfm::cost
