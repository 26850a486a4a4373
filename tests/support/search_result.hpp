// Invariants of every search result, whatever the strategy.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/base/index.hpp"
#include "planner/search/comm_cost/strategy.hpp"
#include "tests/support/catch.hpp"

namespace dtfm {
using namespace cost;
using namespace search;

/// Whether every device occurs exactly once.
inline bool is_permutation_of_devices(const Placement& placement, int devices) {
  std::vector<int> sorted = placement.devices(), all(at(devices));
  std::sort(sorted.begin(), sorted.end());
  std::iota(all.begin(), all.end(), 0);
  return sorted == all;
}

inline void check_result(const CommCostModel& model, const SearchResult& result) {
  CHECK(result.placement.stages() == model.stages);
  CHECK(result.placement.replicas() == model.replicas);
  REQUIRE(is_permutation_of_devices(result.placement, model.devices()));
  const CommCost cost = comm_cost(model, result.placement);
  CHECK(result.cost.data_parallel == cost.data_parallel);
  CHECK(result.cost.pipeline_parallel == cost.pipeline_parallel);
  CHECK(result.cost.total() >= result.lower_bound.value);
  CHECK(result.lower_bound.value >= 0);
  CHECK_FALSE(result.lower_bound.method.empty());
  REQUIRE_FALSE(result.convergence.empty());
  CHECK(result.convergence.front().evaluations >= 1);
  for (std::size_t i = 1; i < result.convergence.size(); ++i) {
    CHECK(result.convergence[i].evaluations > result.convergence[i - 1].evaluations);
    CHECK(result.convergence[i].cost < result.convergence[i - 1].cost);
  }
  CHECK(result.convergence.back().cost == result.cost.total());
  CHECK(result.convergence.back().evaluations <= result.evaluations);
}

}  // namespace dtfm
