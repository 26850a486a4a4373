// Upper bounds on what pipelines achieve together, as a function of how many devices they have.
#pragma once

#include <utility>
#include <vector>

namespace dtfm::cost {

/// The least concave majorant of f, where `values` are f(1), f(2), …, and f(0) = 0, for numbers that are at
/// least `min`. It is constant behind the largest value.
class ConcaveMajorant {
 public:
  explicit ConcaveMajorant(const std::vector<double>& values, int min = 0);

  /// Upper bound on the sum of f over `count` numbers that sum to at most `sum`; −∞ if that is too small.
  double max_sum(int count, int sum) const { return max_profit(count, sum, 0); }
  /// Upper bound on the same sum minus `price` times the sum of the numbers.
  double max_profit(int count, int sum, double price) const;
  /// Largest slope: at higher prices the numbers are as small as possible.
  double max_price() const;

 private:
  std::vector<std::pair<double, double>> points_;  // slopes decrease from one to the next
};

}  // namespace dtfm::cost
