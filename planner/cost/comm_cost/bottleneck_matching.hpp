// Bottleneck assignment: pairs the members of two groups so that the slowest pair is as fast as possible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/index.hpp"

namespace dtfm::cost {

/// Solves many bottleneck assignment problems of the same size without allocating.
class BottleneckMatcher {
 public:
  explicit BottleneckMatcher(int size);

  /// Pairing a row with a column costs `costs[index]`, with the row's `costs` and the column's `index`. Every
  /// row and column must be set before solving, and the cost arrays must outlive the solution.
  void set_row(int row, const double* costs) { rows_[at(row)] = costs; }
  void set_column(int column, int index) { columns_[at(column)] = index; }
  double cost(int row, int column) const { return rows_[at(row)][columns_[at(column)]]; }

  /// Returns the least θ for which a perfect matching with all costs ≤ θ exists: the minimum over all perfect
  /// matchings of their maximum cost.
  double solve();
  /// Like `solve`, starting from a given perfect matching (the column of each row). Fast if that is nearly
  /// optimal.
  double solve_from(std::span<const int> column_of_row);

  /// After solving: the column of each row in an optimal matching, and the row of its slowest pair.
  std::span<const int> column_of_row() const { return column_of_row_; }
  int slowest_row() const;

 private:
  double lower_bound();
  void match_within(double threshold);
  void augment_within(int row);
  double augment(int row, double threshold, double limit);
  void flip_path_to(int column);
  double slowest_pair_but(int row) const;

  int size_;
  std::vector<const double*> rows_;
  std::vector<int> columns_;
  std::vector<int> column_of_row_, row_of_column_;
  std::vector<int> parent_;                  // by column: the row from which it was reached
  std::vector<int> unvisited_;               // columns, scratch space of `augment`
  std::size_t words_;                        // number of 64-bit words in a bit set of columns
  std::vector<std::uint64_t> admissible_;    // rows × words: bit sets of columns within the threshold
  std::vector<std::uint64_t> open_columns_;  // bit set of columns not visited yet
  std::vector<int> queue_;                   // rows
  std::vector<double> key_;                  // by column: its least cost from a visited row
};

}  // namespace dtfm::cost
