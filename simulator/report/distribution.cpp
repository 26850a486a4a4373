#include "simulator/report/distribution.hpp"

#include <algorithm>
#include <numeric>

#include "core/base/error.hpp"

namespace dtfm::sim {

double quantile(std::span<const double> sorted, double share) {
  DTFM_ASSERT(!sorted.empty() && share >= 0 && share <= 1);
  const double position = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  if (below + 1 >= sorted.size()) return sorted.back();
  const double part = position - static_cast<double>(below);
  return sorted[below] + part * (sorted[below + 1] - sorted[below]);
}

Distribution distribution(std::vector<double> values) {
  if (values.empty()) return {};
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  std::sort(values.begin(), values.end());
  const auto count = static_cast<double>(values.size());
  return {sum / count,    quantile(values, 0.5), quantile(values, 0.95), quantile(values, 0.99),
          values.front(), values.back()};
}

}  // namespace dtfm::sim
