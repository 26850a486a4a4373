#include "planner/cost/comm_cost/bottleneck_matching.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "core/base/error.hpp"
#include "core/base/infinity.hpp"

namespace dtfm::cost {
namespace {

constexpr int none = -1;

}  // namespace

BottleneckMatcher::BottleneckMatcher(int size)
    : size_(size),
      rows_(at(size)),
      columns_(at(size)),
      column_of_row_(at(size)),
      row_of_column_(at(size)),
      parent_(at(size)),
      unvisited_(at(size)),
      words_((at(size) + 63) / 64),
      admissible_(at(size) * words_),
      open_columns_(words_),
      key_(at(size)) {}

/// The largest of the minima of all rows and columns: each needs a partner.
double BottleneckMatcher::lower_bound() {
  std::fill(key_.begin(), key_.end(), infinity);
  double bound = -infinity;
  for (int row = 0; row < size_; ++row) {
    double row_minimum = infinity;
    for (int column = 0; column < size_; ++column) {
      const double value = cost(row, column);
      row_minimum = std::min(row_minimum, value);
      key_[at(column)] = std::min(key_[at(column)], value);
    }
    bound = std::max(bound, row_minimum);
  }
  for (const double column_minimum : key_) bound = std::max(bound, column_minimum);
  return bound;
}

// Rows are matched within a threshold, which starts at the lower bound, by breadth-first search over bit
// sets. When no remaining row can be matched, one of them is matched along the alternating path whose slowest
// edge is fastest, and the threshold rises to that edge. The threshold is therefore always the lower bound or
// the bottleneck of the rows matched so far, and neither exceeds the optimum.
double BottleneckMatcher::solve() {
  double threshold = lower_bound();
  std::fill(column_of_row_.begin(), column_of_row_.end(), none);
  std::fill(row_of_column_.begin(), row_of_column_.end(), none);
  for (;;) {
    match_within(threshold);
    const auto left = std::find(column_of_row_.begin(), column_of_row_.end(), none);
    if (left == column_of_row_.end()) return threshold;
    threshold = augment(static_cast<int>(left - column_of_row_.begin()), threshold, infinity);
  }
}

/// Matches as many further rows as possible with costs up to `threshold`.
void BottleneckMatcher::match_within(double threshold) {
  std::fill(admissible_.begin(), admissible_.end(), 0);
  for (int row = 0; row < size_; ++row) {
    std::uint64_t* columns = &admissible_[at(row) * words_];
    for (int column = 0; column < size_; ++column)
      columns[at(column) / 64] |= static_cast<std::uint64_t>(cost(row, column) <= threshold)
                                  << (at(column) % 64);
  }
  for (int row = 0; row < size_; ++row)
    if (column_of_row_[at(row)] == none) augment_within(row);
}

void BottleneckMatcher::augment_within(int row) {
  std::fill(open_columns_.begin(), open_columns_.end(), ~std::uint64_t{0});
  queue_.assign(1, row);
  for (std::size_t next = 0; next < queue_.size(); ++next) {
    const int visited = queue_[next];
    for (std::size_t word = 0; word < words_; ++word) {
      std::uint64_t columns = admissible_[at(visited) * words_ + word] & open_columns_[word];
      open_columns_[word] &= ~columns;
      for (; columns != 0; columns &= columns - 1) {
        const int column = static_cast<int>(word * 64) + std::countr_zero(columns);
        parent_[at(column)] = visited;
        if (row_of_column_[at(column)] == none) {
          flip_path_to(column);
          return;
        }
        queue_.push_back(row_of_column_[at(column)]);
      }
    }
  }
}

// Removes a slowest pair and rematches its row along faster edges, until there is no such path: then no
// perfect matching has only smaller costs (Berge, 1957).
double BottleneckMatcher::solve_from(std::span<const int> column_of_row) {
  for (int row = 0; row < size_; ++row) {
    column_of_row_[at(row)] = column_of_row[at(row)];
    row_of_column_[at(column_of_row[at(row)])] = row;
  }
  for (;;) {
    const int row = slowest_row(), column = column_of_row_[at(row)];
    const double slowest = cost(row, column);
    row_of_column_[at(column)] = none;
    column_of_row_[at(row)] = none;
    const double faster = std::nextafter(slowest, -infinity);
    if (augment(row, std::min(faster, slowest_pair_but(row)), faster) <= faster) continue;
    column_of_row_[at(row)] = column;
    row_of_column_[at(column)] = row;
    return slowest;
  }
}

int BottleneckMatcher::slowest_row() const {
  int slowest = 0;
  for (int row = 1; row < size_; ++row)
    if (cost(row, column_of_row_[at(row)]) > cost(slowest, column_of_row_[at(slowest)])) slowest = row;
  return slowest;
}

double BottleneckMatcher::slowest_pair_but(int row) const {
  double slowest = -infinity;
  for (int other = 0; other < size_; ++other)
    if (other != row) slowest = std::max(slowest, cost(other, column_of_row_[at(other)]));
  return slowest;
}

// Prim's algorithm on the alternating tree rooted at `row`: the column that is reached at the least cost is
// added next. Returns the larger of `threshold` and the slowest edge of the path. As soon as that exceeds
// `limit`, leaves the matching unchanged and returns it.
double BottleneckMatcher::augment(int row, double threshold, double limit) {
  std::iota(unvisited_.begin(), unvisited_.end(), 0);
  std::fill(key_.begin(), key_.end(), infinity);
  int left = size_;
  for (int visited = row;;) {
    int closest = 0;  // position in unvisited_
    for (int i = 0; i < left; ++i) {
      const int column = unvisited_[at(i)];
      double& key = key_[at(column)];
      if (const double value = cost(visited, column); value < key) {
        key = value;
        parent_[at(column)] = visited;
      }
      if (key <= threshold && row_of_column_[at(column)] == none) {
        flip_path_to(column);
        return threshold;
      }
      if (key < key_[at(unvisited_[at(closest)])]) closest = i;
    }
    DTFM_ASSERT(left > 0);
    const int column = unvisited_[at(closest)];
    threshold = std::max(threshold, key_[at(column)]);
    if (threshold > limit) return threshold;
    if (row_of_column_[at(column)] == none) {
      flip_path_to(column);
      return threshold;
    }
    visited = row_of_column_[at(column)];
    unvisited_[at(closest)] = unvisited_[at(--left)];
  }
}

void BottleneckMatcher::flip_path_to(int column) {
  while (column != none) {
    const int row = parent_[at(column)];
    const int freed = column_of_row_[at(row)];
    column_of_row_[at(row)] = column;
    row_of_column_[at(column)] = row;
    column = freed;
  }
}

}  // namespace dtfm::cost
