// The members of results of the comm-cost search, for ByteCodec.
#pragma once

#include "core/plan/fields.hpp"
#include "planner/search/comm_cost/anneal.hpp"

namespace dtfm::search {

auto fields(MaybeConst<DeployedPlacement> auto& it) {
  auto& [placement, cost] = it;
  return std::tie(placement, cost);
}

auto fields(MaybeConst<AnnealedPlacement> auto& it) {
  auto& [best, moves] = it;
  return std::tie(best, moves);
}

auto fields(MaybeConst<LowerBound> auto& it) {
  auto& [value, method] = it;
  return std::tie(value, method);
}

}  // namespace dtfm::search
