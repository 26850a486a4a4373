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

}  // namespace dtfm::search
