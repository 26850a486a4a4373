#include "planner/cost/bounds/concave_majorant.hpp"

#include <algorithm>
#include <cstddef>

#include "core/base/index.hpp"
#include "core/base/infinity.hpp"

namespace dtfm::cost {

ConcaveMajorant::ConcaveMajorant(const std::vector<double>& values, int min)
    : points_{{min, min > 0 && at(min) <= values.size() ? values[at(min - 1)] : 0}} {
  for (std::size_t i = at(min); i < values.size(); ++i) {
    const std::pair<double, double> point{static_cast<double>(i + 1), values[i]};
    if (point.second <= points_.back().second) continue;
    while (points_.size() > 1) {
      const auto &a = points_[points_.size() - 2], &b = points_.back();
      if ((b.second - a.second) * (point.first - a.first) > (point.second - a.second) * (b.first - a.first))
        break;
      points_.pop_back();
    }
    points_.push_back(point);
  }
}

/// All numbers grow together, as long as that is worth the price.
double ConcaveMajorant::max_profit(int count, int sum, double price) const {
  if (count == 0) return 0;
  double left = sum - count * points_.front().first;
  if (left < 0) return -infinity;
  double profit = count * (points_.front().second - price * points_.front().first);
  for (std::size_t i = 1; i < points_.size() && left > 0; ++i) {
    const auto &a = points_[i - 1], &b = points_[i];
    const double slope = (b.second - a.second) / (b.first - a.first);
    if (slope <= price) break;
    const double taken = std::min(left, count * (b.first - a.first));
    profit += (slope - price) * taken;
    left -= taken;
  }
  return profit;
}

double ConcaveMajorant::max_price() const {
  if (points_.size() < 2) return 0;
  return (points_[1].second - points_[0].second) / (points_[1].first - points_[0].first);
}

}  // namespace dtfm::cost
