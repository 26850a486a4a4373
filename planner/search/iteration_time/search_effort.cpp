#include "planner/search/iteration_time/search_effort.hpp"

#include <algorithm>
#include <cmath>

namespace dtfm::search {

// Chosen by hand for the plans and the times in docs/validation.md; the number of children on
// `benchmark_tiny_problems medium 72 103`.
SearchEffort default_effort(int devices) {
  const double few = std::clamp(64.0 / devices, 1.0, 4.0);
  return {static_cast<std::size_t>(std::max(16.0, 8 * few)), 480'000 / std::sqrt(few),
          36'000 * few * few * few};
}

// Chosen by hand: up to 12 devices take about a second, and 256 take three.
long long max_unfit_evaluations(int devices) {
  constexpr double least = 6'000, most = 50'000, of_all = 600'000;
  return static_cast<long long>(std::clamp(of_all / devices, least, most));
}

}  // namespace dtfm::search
