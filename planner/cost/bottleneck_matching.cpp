#include "planner/cost/bottleneck_matching.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "planner/core/error.hpp"

namespace dtfm {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
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
      key_(at(size)) {}

/// Every row and every column needs a partner.
double BottleneckMatcher::lower_bound() {
  std::fill(key_.begin(), key_.end(), infinity);
  double bound = -infinity;
  for (int row = 0; row < size_; ++row) {
    double least = infinity;
    for (int column = 0; column < size_; ++column) {
      const double value = cost(row, column);
      least = std::min(least, value);
      key_[at(column)] = std::min(key_[at(column)], value);
    }
    bound = std::max(bound, least);
  }
  for (const double least : key_) bound = std::max(bound, least);
  return bound;
}

// Rows are matched one after the other along the path whose slowest edge is fastest. After each row the
// threshold is the larger of the lower bound and the bottleneck of the rows matched so far; neither exceeds
// the answer.
double BottleneckMatcher::solve() {
  double threshold = lower_bound();
  std::fill(column_of_row_.begin(), column_of_row_.end(), none);
  std::fill(row_of_column_.begin(), row_of_column_.end(), none);
  for (int row = 0; row < size_; ++row) threshold = augment(row, threshold);
  return threshold;
}

// Takes out a slowest pair and matches its row anew along edges that are faster, until there is no such path:
// then no perfect matching has all its costs below (Berge, 1957).
double BottleneckMatcher::solve_from(std::span<const int> column_of_row) {
  for (int row = 0; row < size_; ++row) {
    column_of_row_[at(row)] = column_of_row[at(row)];
    row_of_column_[at(column_of_row[at(row)])] = row;
  }
  for (;;) {
    const int row = slowest_row();
    const double slowest = cost(row, column_of_row_[at(row)]);
    row_of_column_[at(column_of_row_[at(row)])] = none;
    column_of_row_[at(row)] = none;
    const double faster = std::nextafter(slowest, -infinity);
    if (augment(row, std::min(faster, slowest_pair_but(row))) > faster) return slowest;
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

// Prim's algorithm on the alternating tree from `row`: the column that is reached at the least cost joins
// next. Returns the larger of `threshold` and the slowest edge of the path.
double BottleneckMatcher::augment(int row, double threshold) {
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

}  // namespace dtfm
