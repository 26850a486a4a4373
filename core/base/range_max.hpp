// The largest of consecutive values, in constant time.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>
#include <vector>

namespace dtfm {

/// A sparse table (Bender and Farach-Colton 2000): every range is the union of two ranges of a power of two.
class RangeMax {
 public:
  RangeMax() = default;
  explicit RangeMax(std::vector<double> values) : levels_{std::move(values)} {
    for (std::size_t half = 1; 2 * half <= levels_.front().size(); half *= 2) {
      const std::vector<double>& below = levels_.back();
      std::vector<double> level;
      for (std::size_t i = 0; i + half < below.size(); ++i)
        level.push_back(std::max(below[i], below[i + half]));
      levels_.push_back(std::move(level));
    }
  }

  std::size_t size() const { return levels_.empty() ? 0 : levels_.front().size(); }
  /// Of the values [begin, end), and of 0.
  double of(std::size_t begin, std::size_t end) const {
    if (begin >= end) return 0;
    const std::size_t level = static_cast<std::size_t>(std::bit_width(end - begin)) - 1;
    return std::max({0.0, levels_[level][begin], levels_[level][end - (std::size_t{1} << level)]});
  }

 private:
  std::vector<std::vector<double>> levels_;  // [k][i]: of the values [i, i + 2^k)
};

}  // namespace dtfm
